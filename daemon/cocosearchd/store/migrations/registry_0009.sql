-- The timeline of PostgreSQL's log, as a daemon saw it last: another one means that commits may be lost.
alter table cocosearch_registry add column timeline text not null default '';
