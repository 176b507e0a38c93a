-- Rows of what a file held before may stay, to be taken up again when it comes back. No question sees them.
create table {spares} (
    filename text collate "C" not null,
    ordinals bigint[] not null,
    since timestamptz not null default now(),
    constraint {spares_key} primary key (filename)
) with (toast_tuple_target = 8160);
-- Looked into row by row, as those of the files are.
alter table {spares} alter column ordinals set storage main;
