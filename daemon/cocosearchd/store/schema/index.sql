-- The chunks of files. Every key starts with filename, so that a distributed PostgreSQL can shard by it.
-- No row is ever updated: an update would enter all indexes again. The position of a chunk in its file changes with the
-- text above it, so it is stored with the file.
create table {chunks} (
    -- "C": sorted by byte on every server, and a prefix is a range of the key.
    filename text collate "C" not null,
    -- The number of the chunk: ascends with the position, and stays when the position changes.
    chunk_number bigint not null,
    -- This text and the columns that may be null below: only in rows older than packed_texts.
    content_text text,
    -- L2-normalised; null: the model knows nothing of the text.
    embedding halfvec({dimension}),
    block_type text,
    hierarchy text,
    language_id text not null,
    symbol_type text,
    symbol_name text,
    symbol_signature text,
    -- Length in the file.
    byte_count integer not null,
    line_count integer not null,
    -- Names defined in the chunk, in order.
    definitions text[],
    -- Embedded and keyword-indexed in front of the content, never shown.
    header text,
    -- Digest of everything but embedding, position and number: a chunk that is stored already is not written again.
    chunk_hash bytea not null,
    -- Every definition that starts in the chunk, and the one that the chunk is part of: kinds and qualified names, in the
    -- same order. Null in rows older than these columns.
    symbol_kinds text[],
    symbol_names text[],
    -- Text, header and names, packed by store.chunks.packed_texts.
    packed_texts bytea,
    constraint {chunks_key} primary key (filename, chunk_number)
);
-- The texts are compressed already.
alter table {chunks} alter column packed_texts set storage external;
create index {chunks_language} on {chunks} (language_id);
create index {chunks_kinds} on {chunks} using gin (symbol_kinds)
    with (fastupdate = on, gin_pending_list_limit = 128);
-- Has only rows older than symbol_kinds: finds them by kind, and counts them, quickly.
create index {chunks_symbol} on {chunks} (symbol_type) where symbol_kinds is null;

-- The state of each file. Its row is written in the transaction of its chunks.
create table {files} (
    filename text collate "C" not null,
    -- blake2b of the file's bytes, 16 bytes.
    content_hash bytea not null,
    -- device, inode, size, mtime_ns, ctime_ns, mode: six big-endian 64-bit numbers. Null, or all but the device 0: read the
    -- file again.
    fingerprint bytea,
    generation bigint not null,
    chunk_count integer not null,
    symbol_count integer not null,
    language_id text not null,
    skip_reason text,
    -- The ranges of its definitions, packed by languages.definition_ranges, to widen hits; null: not known.
    scopes bytea,
    -- Its chunks by position: number, first byte and first line (from 1) of each.
    chunk_numbers bigint[] not null default '{{}}',
    starts bigint[] not null default '{{}}',
    first_lines integer[] not null default '{{}}',
    -- Its definitions with names, signatures and ranges, packed by languages.symbol_table, to list them; null: not known.
    symbols bytea,
    -- Its imports, uses and bindings, packed by languages.fact_table, for the code graph; null: not known.
    facts bytea,
    -- Hashes of the names that it defines and uses, packed by languages.name_hashes; null: not known.
    name_hashes bytea,
    -- Digest of the rules that made its rows, 16 bytes; null: those that the registry has; empty: others, make them anew.
    rules_digest bytea,
    constraint {files_key} primary key (filename)
) with (toast_tuple_target = 8160);
-- They are read chunk by chunk, so up to about 400 chunks they stay in the row uncompressed.
alter table {files}
    alter column chunk_numbers set storage main,
    alter column starts set storage main,
    alter column first_lines set storage main;
-- Facts are compressed already.
alter table {files} alter column facts set storage external;

-- Parse health of each file that was parsed.
create table {parses} (
    filename text collate "C" not null,
    file_path text collate "C" not null generated always as (filename) stored,
    language text not null,
    parse_status text not null,
    error_count integer not null,
    error_message text not null,
    created_at timestamptz not null default now(),
    constraint {parses_key} primary key (filename)
);

-- Retained chunks: those of the previous content of a file, which may come back. No query sees them. The file itself may
-- be gone.
create table {retained_chunks} (
    filename text collate "C" not null,
    chunk_numbers bigint[] not null,
    since timestamptz not null default now(),
    constraint {retained_chunks_key} primary key (filename)
) with (toast_tuple_target = 8160);
-- Read row by row, like the arrays of the files.
alter table {retained_chunks} alter column chunk_numbers set storage main;

-- Words for full text search: header and content of a chunk after identifier splitting. Empty unless the index keeps them
-- (cocosearch_indexes.words). A row goes with its chunk, by the statements that delete chunks: a trigger would cost each
-- write. Not a column of chunks: to fill one, each row of chunks would be updated, and enter all indexes again.
create table {words} (
    filename text collate "C" not null,
    chunk_number bigint not null,
    words tsvector not null,
    constraint {words_key} primary key (filename, chunk_number)
);
