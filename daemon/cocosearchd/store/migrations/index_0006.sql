-- Columns and tables get the names that the code uses: the number of a chunk, and retained chunks.
alter table {chunks} rename column ordinal to chunk_number;
-- The key keeps its own name of the column.
alter table {chunks_key} rename column ordinal to chunk_number;
alter table {files} rename column ordinals to chunk_numbers;
alter table {spares} rename column ordinals to chunk_numbers;
alter table {spares} rename constraint {spares_key} to {retained_chunks_key};
alter table {spares} rename to {retained_chunks};
