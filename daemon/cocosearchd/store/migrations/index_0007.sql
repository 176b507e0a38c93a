-- The definitions of a file, to list them with their lines. Null in older rows: their files are read again.
alter table {files} add column symbols bytea;
