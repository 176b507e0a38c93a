-- The text of a chunk and its names are packed by the daemon, to less than half of their bytes. Null in older rows, which
-- have them in columns; the next change of their file packs them.
alter table {chunks} add column packed_texts bytea;
alter table {chunks}
    alter column content_text drop not null,
    alter column block_type drop not null,
    alter column hierarchy drop not null,
    alter column definitions drop not null,
    alter column header drop not null;
alter table {chunks} alter column packed_texts set storage external;
