-- The settings beside the identity that shaped the rows of an index, from name to value. Empty: the defaults.
alter table cocosearch_indexes add column made_with jsonb not null default '{{}}';
