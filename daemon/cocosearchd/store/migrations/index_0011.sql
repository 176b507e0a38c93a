-- The rules that made the rows of a file. Null: those that the registry has. Empty: others, so the file is made anew.
alter table {files} add column rules_digest bytea;
update {files} set rules_digest = '' where fingerprint is null;
