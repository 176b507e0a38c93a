-- The state of the database as a whole: one row.
create table cocosearch_registry (
    singleton boolean primary key default true check (singleton),
    -- New for each database: side indexes and caches of another database never match it.
    incarnation uuid not null default gen_random_uuid(),
    version integer not null default 0,
    -- The highest generation of any dropped index. New indexes count on from here, so that no generation of a name is ever
    -- used for two contents.
    generation_floor bigint not null default 0,
    -- The host of the daemon that uses it, for followers.
    host text not null default '',
    -- The daemon that uses it, as its lock is named: commits of another one are refused.
    owner text not null default '',
    -- The timeline of PostgreSQL's log, as a daemon saw it last: another one means that commits may be lost. '' if none is shown.
    timeline text not null default ''
);
insert into cocosearch_registry default values;

-- One row per index.
create table cocosearch_indexes (
    number integer generated always as identity primary key,
    name text not null unique,
    -- Part of table names, which PostgreSQL cuts at 63 bytes.
    slug text not null unique check (slug ~ '^[a-z0-9_]{{1,22}}$'),
    root bytea not null,
    topics text[] not null default '{{}}',
    -- Dimension of the vectors.
    dimension integer not null check (dimension between 1 and 4000),
    -- The identity, which shapes every row: the embedder's fingerprint, the chunker, the header line. `identity` is their
    -- digest; a write for another identity is refused.
    embedder jsonb not null,
    chunker text not null,
    header_version integer not null,
    identity bytea not null,
    -- Number of committed changes.
    generation bigint not null default 0,
    last_change timestamptz,
    -- Number of the last migration of its tables.
    version integer not null default 0,
    -- The other settings that shaped the rows, from name to value: see the module `invalidation`. Empty: the defaults.
    shaping_settings jsonb not null default '{{}}',
    -- The role. While an index changes its embedder it has two rows: the current one, which answers, and the next one, which
    -- is filled. A retired one has been replaced, and only waits for its tables to be dropped.
    role text not null default 'current' check (role in ('current', 'next', 'retired')),
    -- Which words for full text search are in its table of words: none; those of all chunks written since filling began,
    -- and of some older ones; or those of all chunks, with an index. A write reads it under the lock of words.
    words text not null default 'none' check (words in ('none', 'filling', 'complete'))
) with (fillfactor = 50);

-- A root may be too long for an entry of a btree.
create unique index cocosearch_indexes_root on cocosearch_indexes (sha256(root), role) where role <> 'retired';

-- The meanings of uses that a precise index (SCIP) of the language's own tools gave, for each file that it was made for.
create table cocosearch_precise_uses (
    index_number integer not null references cocosearch_indexes (number) on delete cascade,
    filename text collate "C" not null,
    -- The content that it was made for: blake2b, 16 bytes, as the files of an index have it.
    content_hash bytea not null,
    -- Packed by graph.scip.precise_uses, compressed already.
    uses bytea not null,
    primary key (index_number, filename)
);
alter table cocosearch_precise_uses alter column uses set storage external;

-- What the daemon published of its indexes for followers: one row an index that one has asked about.
create table cocosearch_publications (
    index_number integer primary key,
    -- The transaction and the time at which the comparison with the disk began: a question before both is answered.
    transaction bigint not null,
    begun timestamptz not null,
    -- The generation that holds all changes before that.
    generation bigint not null,
    -- Why the index is not known to equal its disk, as `freshness` says it; null: it does.
    stale_code text,
    stale_reason text,
    -- When it was last known to.
    clean_at timestamptz
) with (fillfactor = 50);
