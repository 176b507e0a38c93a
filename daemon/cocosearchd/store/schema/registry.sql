-- What the database as a whole knows about itself: one row.
create table cocosearch_registry (
    singleton boolean primary key default true check (singleton),
    -- Made anew with the database: side indexes and caches of another database never match it.
    incarnation uuid not null default gen_random_uuid(),
    version integer not null default 0,
    -- The highest generation of any index that was dropped. New indexes count on from here, so that no generation of a
    -- name is ever used for two contents.
    generation_floor bigint not null default 0
);
insert into cocosearch_registry default values;

-- One row per index.
create table cocosearch_indexes (
    number integer generated always as identity primary key,
    name text not null unique,
    -- What table names are made of. PostgreSQL cuts names at 63 bytes.
    slug text not null unique check (slug ~ '^[a-z0-9_]{{1,22}}$'),
    root bytea not null,
    topics text[] not null default '{{}}',
    -- Of the vectors.
    dimension integer not null check (dimension between 1 and 4000),
    -- What shapes a row: the embedder's fingerprint, the chunker, the header line. `identity` is their digest; a write
    -- made for another identity is refused.
    embedder jsonb not null,
    chunker text not null,
    header_version integer not null,
    identity bytea not null,
    -- Counts committed changes.
    generation bigint not null default 0,
    last_change timestamptz,
    -- Of the last migration of its tables.
    version integer not null default 0,
    -- What shaped the rows beside its identity: name to value, as `remake.made_with` says. Empty: the defaults.
    made_with jsonb not null default '{{}}',
    -- An index that changes its embedder has two rows meanwhile: the one that answers, and the next one, which is being
    -- filled. A former one has been replaced and is only there until its tables are dropped.
    standing text not null default 'current' check (standing in ('current', 'next', 'former'))
) with (fillfactor = 50);

-- A root may be longer than a btree's entry.
create unique index cocosearch_indexes_root on cocosearch_indexes (sha256(root), standing) where standing <> 'former';
