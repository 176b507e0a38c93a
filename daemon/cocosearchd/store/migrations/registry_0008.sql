-- The daemon that uses the registry: commits of another one are refused.
alter table cocosearch_registry add column owner text not null default '';
