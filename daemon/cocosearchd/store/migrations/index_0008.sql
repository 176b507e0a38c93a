-- The code graph: imports and uses of each file, compressed already, and the hashes of its names. Null in older rows: their
-- files are read again.
alter table {files} add column facts bytea, add column name_hashes bytea;
alter table {files} alter column facts set storage external;
