-- Words for full text search move to a table of their own, which is empty until somebody needs them: the profile `code`
-- never reads them. They are filled from the chunks. The index of words goes with its column.
alter table {chunks} drop column content_tsv;
alter table {chunks} drop column content_tsv_input;
create table {words} (
    filename text collate "C" not null,
    chunk_number bigint not null,
    words tsvector not null,
    constraint {words_key} primary key (filename, chunk_number)
);
