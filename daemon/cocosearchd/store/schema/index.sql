-- What is embedded and found. Every key starts with filename, so that a distributed PostgreSQL can shard by it.
-- No row is ever updated: an update would enter all indexes again. Where in its file a chunk is, which
-- changes with what is above it, is kept with the file.
create table {chunks} (
    -- "C": sorted by byte on every server, and a prefix is a range of the key.
    filename text collate "C" not null,
    -- Ascends with the place; is kept where that changes.
    ordinal bigint not null,
    content_text text not null,
    -- Header and content after identifier splitting.
    content_tsv_input text not null,
    content_tsv tsvector not null generated always as (to_tsvector('simple', content_tsv_input)) stored,
    -- L2-normalised; null: nothing is known of the text.
    embedding halfvec({dimension}),
    block_type text not null,
    hierarchy text not null,
    language_id text not null,
    symbol_type text,
    symbol_name text,
    symbol_signature text,
    -- How long it is in the file.
    byte_count integer not null,
    line_count integer not null,
    -- Names defined inside, in order.
    definitions text[] not null,
    -- Embedded and keyword-indexed in front of the content, never shown.
    header text not null,
    -- Of everything but embedding, bytes and ordinal: what is stored already is not written again.
    chunk_hash bytea not null,
    -- Every definition that starts inside, and the one the chunk itself is part of: kind by kind, and qualified name by
    -- name, in one order. Null in rows of before these columns.
    symbol_kinds text[],
    symbol_names text[],
    constraint {chunks_key} primary key (filename, ordinal)
);
-- Words of new rows wait in a list until there are enough of them to enter the index together: kilobytes. A search reads
-- the list as well; full, it adds half a millisecond.
create index {chunks_text} on {chunks} using gin (content_tsv) with (fastupdate = on, gin_pending_list_limit = 1024);
create index {chunks_language} on {chunks} (language_id);
create index {chunks_kinds} on {chunks} using gin (symbol_kinds)
    with (fastupdate = on, gin_pending_list_limit = 128);
-- Holds rows of before symbol_kinds only: it makes them quick to find by kind, and to count.
create index {chunks_symbol} on {chunks} (symbol_type) where symbol_kinds is null;

-- What is known of each file. Its row is written in the transaction of its chunks.
create table {files} (
    filename text collate "C" not null,
    -- blake2b, 16 bytes, of the file's bytes.
    content_hash bytea not null,
    -- device, inode, size, mtime_ns, ctime_ns, mode: six big-endian 64-bit numbers; null: read the file again.
    fingerprint bytea,
    generation bigint not null,
    chunk_count integer not null,
    symbol_count integer not null,
    language_id text not null,
    skip_reason text,
    -- Where its definitions lie, packed by languages.scopes, to widen hits; null: not known.
    scopes bytea,
    -- Where its chunks are, by place: of each its ordinal, first byte and first line (from 1).
    ordinals bigint[] not null default '{{}}',
    starts bigint[] not null default '{{}}',
    first_lines integer[] not null default '{{}}',
    constraint {files_key} primary key (filename)
) with (toast_tuple_target = 8160);
-- They are read chunk by chunk, so up to about 400 chunks they stay in the row as they are, and only then are packed.
alter table {files}
    alter column ordinals set storage main,
    alter column starts set storage main,
    alter column first_lines set storage main;

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

-- Chunks of what a file held before, which no question sees: it may come back. The file itself may be gone.
create table {spares} (
    filename text collate "C" not null,
    ordinals bigint[] not null,
    since timestamptz not null default now(),
    constraint {spares_key} primary key (filename)
) with (toast_tuple_target = 8160);
-- Looked into row by row, as those of the files are.
alter table {spares} alter column ordinals set storage main;
