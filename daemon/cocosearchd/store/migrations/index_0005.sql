-- Retained chunks: rows of the previous content of a file may stay, to be used again when it comes back. No query sees
-- them.
create table {spares} (
    filename text collate "C" not null,
    ordinals bigint[] not null,
    since timestamptz not null default now(),
    constraint {spares_key} primary key (filename)
) with (toast_tuple_target = 8160);
-- Read row by row, like the arrays of the files.
alter table {spares} alter column ordinals set storage main;
