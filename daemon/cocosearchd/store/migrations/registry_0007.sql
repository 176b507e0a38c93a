-- For followers: the host of the daemon that owns the registry, and what it published of its indexes.
alter table cocosearch_registry add column host text not null default '';
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
