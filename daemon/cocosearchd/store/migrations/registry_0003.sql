-- While an index changes its embedder it has two rows: the current one, which answers, and the next one, which is filled.
-- A former (retired) one has been replaced, and only waits for its tables to be dropped.
alter table cocosearch_indexes add column standing text not null default 'current'
    check (standing in ('current', 'next', 'former'));
drop index cocosearch_indexes_root;
create unique index cocosearch_indexes_root on cocosearch_indexes (sha256(root), standing) where standing <> 'former';
