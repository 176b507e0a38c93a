-- What shaped the rows of an index beside its identity: name to value, as `remake.made_with` says. Empty: the defaults.
alter table cocosearch_indexes add column made_with jsonb not null default '{{}}';
