-- An index that changes its embedder has two rows meanwhile: the one that answers, and the next one, which is being
-- filled. A former one has been replaced and is only there until its tables are dropped.
alter table cocosearch_indexes add column standing text not null default 'current'
    check (standing in ('current', 'next', 'former'));
drop index cocosearch_indexes_root;
create unique index cocosearch_indexes_root on cocosearch_indexes (sha256(root), standing) where standing <> 'former';
