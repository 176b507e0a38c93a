-- The chunks of files. Every key starts with filename, so that a distributed PostgreSQL can shard by it.
-- No row is ever updated: an update would enter all indexes again.
create table {chunks} (
    -- "C": sorted by byte on every server, and a prefix is a range of the key.
    filename text collate "C" not null,
    -- Bytes of the file, half-open.
    location int8range not null,
    content_text text not null,
    -- Header and content after identifier splitting.
    content_tsv_input text not null,
    content_tsv tsvector not null generated always as (to_tsvector('simple', content_tsv_input)) stored,
    -- L2-normalised; null: the model knows nothing of the text.
    embedding halfvec({dimension}),
    block_type text not null,
    hierarchy text not null,
    language_id text not null,
    symbol_type text,
    symbol_name text,
    symbol_signature text,
    start_line integer not null,
    end_line integer not null,
    -- Names defined in the chunk, in order.
    definitions text[] not null,
    -- Embedded and keyword-indexed in front of the content, never shown.
    header text not null,
    -- Digest of everything above but embedding and location: rows with equal digests in equal places are not written again.
    chunk_hash bytea not null,
    constraint {chunks_key} primary key (filename, location)
);
-- fastupdate off: a pending list makes single searches slow, and a search must see a save at once anyway.
create index {chunks_text} on {chunks} using gin (content_tsv) with (fastupdate = off);
create index {chunks_language} on {chunks} (language_id);
create index {chunks_symbol} on {chunks} (symbol_type) where symbol_type is not null;

-- The state of each file. Its row is written in the transaction of its chunks.
create table {files} (
    filename text collate "C" not null,
    -- blake2b of the file's bytes, 16 bytes.
    content_hash bytea not null,
    -- device, inode, size, mtime_ns, ctime_ns, mode: six big-endian 64-bit numbers; null: read the file again.
    fingerprint bytea,
    generation bigint not null,
    chunk_count integer not null,
    symbol_count integer not null,
    language_id text not null,
    skip_reason text,
    -- The ranges of its definitions, packed by languages.scopes, to widen hits; null: not known.
    scopes bytea,
    constraint {files_key} primary key (filename)
);

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
