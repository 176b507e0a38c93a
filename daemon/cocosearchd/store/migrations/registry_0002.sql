-- The user's symbol queries that the rows of an index were made with: language to digest. Empty: the built-in ones.
alter table cocosearch_indexes add column queries jsonb not null default '{{}}';
