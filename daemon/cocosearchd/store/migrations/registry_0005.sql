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
