-- Every definition that starts inside a chunk, and the one the chunk itself is part of: kind by kind, and qualified name
-- by name, in one order. Null in rows of before: what is known of those is symbol_type, symbol_name and definitions.
alter table {chunks} add column symbol_kinds text[], add column symbol_names text[];
drop index {chunks_symbol};
create index {chunks_kinds} on {chunks} using gin (symbol_kinds) with (fastupdate = off);
-- Holds rows of before only: it makes them quick to find by kind, and to count.
create index {chunks_symbol} on {chunks} (symbol_type) where symbol_kinds is null;
