-- Rows of chunks are not updated any more: the position of a chunk is stored with its file, and the key of a chunk is a
-- number (ordinal) that stays. The numbers of existing chunks ascend with the position: 22 bits are for the length.
alter table {files}
    add column ordinals bigint[] not null default '{{}}',
    add column starts bigint[] not null default '{{}}',
    add column first_lines integer[] not null default '{{}}';
alter table {files} set (toast_tuple_target = 8160);
alter table {files}
    alter column ordinals set storage main,
    alter column starts set storage main,
    alter column first_lines set storage main;
update {files} f
set ordinals = c.ordinals, starts = c.starts, first_lines = c.first_lines
from (
    select filename,
           array_agg(lower(location) * 4194304 + least(upper(location) - lower(location), 4194303) order by location)
               as ordinals,
           array_agg(lower(location) order by location) as starts,
           array_agg(start_line order by location) as first_lines
    from {chunks} group by filename
) as c
where c.filename = f.filename;
-- This rebuilds all indexes. The vector index takes longest and is not needed at once: it is built again when the daemon
-- is idle.
drop index if exists {chunks_vector};
alter table {chunks} drop constraint {chunks_key};
-- From version 18 on, PostgreSQL names these constraints after their columns: they are created again under the new names.
alter table {chunks}
    alter column location drop not null,
    alter column start_line drop not null,
    alter column end_line drop not null;
alter table {chunks}
    alter column location type bigint
        using lower(location) * 4194304 + least(upper(location) - lower(location), 4194303),
    alter column start_line type integer using (upper(location) - lower(location))::integer,
    alter column end_line type integer using end_line - start_line + 1;
alter table {chunks} rename column location to ordinal;
alter table {chunks} rename column start_line to byte_count;
alter table {chunks} rename column end_line to line_count;
alter table {chunks} alter column byte_count set not null, alter column line_count set not null;
alter table {chunks} add constraint {chunks_key} primary key (filename, ordinal);
