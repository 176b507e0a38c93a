-- Columns and values get the names that the code uses: the role of an index, and the settings that shaped its rows.
alter table cocosearch_indexes rename column made_with to shaping_settings;
drop index cocosearch_indexes_root;
alter table cocosearch_indexes drop constraint cocosearch_indexes_standing_check;
alter table cocosearch_indexes rename column standing to role;
update cocosearch_indexes set role = 'retired' where role = 'former';
alter table cocosearch_indexes add check (role in ('current', 'next', 'retired'));
create unique index cocosearch_indexes_root on cocosearch_indexes (sha256(root), role) where role <> 'retired';
