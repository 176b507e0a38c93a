-- Every definition that starts in a chunk, and the one that the chunk is part of: kinds and qualified names, in the same
-- order. Null in older rows, which have only symbol_type, symbol_name and definitions.
alter table {chunks} add column symbol_kinds text[], add column symbol_names text[];
drop index {chunks_symbol};
create index {chunks_kinds} on {chunks} using gin (symbol_kinds) with (fastupdate = off);
-- Has only the older rows: finds them by kind, and counts them, quickly.
create index {chunks_symbol} on {chunks} (symbol_type) where symbol_kinds is null;
