-- Every statement of the store. {chunks}, {files}, {parses}, {retained_chunks} and {words} stand for tables of one index,
-- {indexes}, {registry}, {precise_uses} and {publications} for those of its registry, and %(name)s for a value. {texts},
-- {columns}, {content_columns}, {live}, {place}, {place_in_file} and {requested} stand for the parts of these names.
-- `-- name:` starts a statement; the comment below it describes it. `offset 0` keeps PostgreSQL from merging a subquery into
-- the query: its values are computed once a row.

-- name: daemon_role_is_ready
-- For the embedded server: the role of the daemon owns everything that is not PostgreSQL's, and is no superuser.
select exists (select from pg_roles where rolname = 'cocosearchd' and rolcanlogin and not rolsuper)
    and exists (select from pg_extension where extname = 'vector')
    and (select pg_get_userbyid(datdba) from pg_database where datname = current_database()) = 'cocosearchd'
    and not exists (
        select from pg_class
        where relkind in ('r', 'p') and relnamespace::regnamespace::text !~ '^(pg_|information_schema$)'
          and pg_get_userbyid(relowner) <> 'cocosearchd'
    )

-- name: make_daemon_role
-- Run as superuser. The extension is created here because only a superuser may; identity sequences follow their tables.
do $$
declare
    relation regclass;
begin
    if not exists (select from pg_roles where rolname = 'cocosearchd') then
        create role cocosearchd;
    end if;
    alter role cocosearchd login nosuperuser nocreaterole noreplication nobypassrls;
    create extension if not exists vector;
    execute format('alter database %I owner to cocosearchd', current_database());
    alter schema public owner to cocosearchd;
    for relation in
        select oid from pg_class
        where relkind in ('r', 'p') and relnamespace::regnamespace::text !~ '^(pg_|information_schema$)'
          and pg_get_userbyid(relowner) <> 'cocosearchd'
    loop
        execute format('alter table %s owner to cocosearchd', relation);
    end loop;
end
$$

-- name: checkpoint
-- Run as superuser.
checkpoint

-- name: citus_version
select (select extversion from pg_extension where extname = 'citus')

-- name: is_distributed
-- Whether Citus distributes a schema; an empty name stands for the first one of the search_path.
select exists (
    select from pg_dist_schema join pg_namespace on oid = schemaid
    where nspname = case when %(schema)s = '' then current_schema() else %(schema)s end
)

-- name: run_on_node
-- The rows of a query that runs on the node of a table of a distributed schema. In it, %%1$s stands for the table there.
select success, result
from run_command_on_shards({relation}, 'select json_agg(row_to_json(fetched)) from (' || %(query)s || ') as fetched')

-- name: is_coordinator
-- Whether this is the node of a cluster to which daemons connect.
select groupid = 0 from pg_dist_local_group

-- name: distributed_table
-- A table of a daemon in the first schema of the search_path that Citus distributes; nulls: there is none.
select (
    select relname from pg_dist_partition join pg_class on oid = logicalrelid
    where relnamespace = to_regnamespace(quote_ident(current_schema())) and relname ~ '^(cocosearch|codeindex)_'
    order by relname limit 1
), quote_ident(current_schema())

-- name: begin_schema_change
-- A schema change may wait longer than a search: for running queries, and for another change. The daemon of that change
-- may have been killed.
select set_config('statement_timeout', '0', true), set_config('lock_timeout', '60s', true)

-- name: lock_schema
-- Allows one change at a time in the whole database. A separate statement, so that the new timeouts apply to it.
select pg_advisory_xact_lock(109356061589506)

-- name: own_tables
-- Tables of the daemon's own schema, in the order of the names.
select nspname, relname
from unnest(%(names)s::text[]) with ordinality as requested(name, n)
join pg_class on relname = name and relkind = 'r'
join pg_namespace s on s.oid = relnamespace and nspname = current_schema()
order by n

-- name: shorten_lock_timeout
-- Shorter than deadlock_timeout. `set local` reaches the nodes of a cluster, set_config does not.
set local lock_timeout = '200ms'

-- name: lock_tables
lock table {relations} in access exclusive mode

-- name: registry_exists
-- Looks in the first schema of the search_path only: a later schema belongs to another daemon.
select (to_regclass(quote_ident(current_schema()) || '.cocosearch_registry') is not null)::int

-- name: registry_version
select version from {registry}

-- name: set_registry_version
update {registry} set version = %(version)s where version <> %(version)s

-- name: incarnation
select incarnation::text from {registry}

-- name: name_session
select set_config('application_name', %(name)s, false)

-- name: set_reading_pause
-- For a transaction that reads in batches, and works on each of them before the next.
set local idle_in_transaction_session_timeout = '600s'

-- name: registry_schema
-- The schema of the registry: its name, and its quoted name. The schema need not exist yet.
select current_schema(), quote_ident(current_schema())

-- name: try_instance_lock
select pg_try_advisory_lock(%(key)s)

-- name: instance_lock_holder
-- The holder of the lock: the name of its session, and its client address. A role sees no addresses of others.
select application_name,
       coalesce(host(client_addr), case when backend_start is null then 'another host or role' else 'this machine' end)
from pg_locks join pg_stat_activity using (pid)
where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database())
  and classid::bigint << 32 | objid::bigint = %(key)s and objsubid = 1

-- name: lock_owner
-- The daemon that uses the registry, see `owned_transaction`. The end of the transaction releases the lock.
select owner from {registry} for share

-- name: timeline
-- The timeline of the log that is written now: each failover, and each restored backup, begins another.
select left(pg_walfile_name(pg_current_wal_lsn()), 8)

-- name: noted_timeline
select timeline from {registry}

-- name: note_timeline
update {registry} set timeline = %(timeline)s

-- name: claim_registry
update {registry} set owner = %(owner)s

-- name: indexes
-- All indexes, the index of a name, or the indexes of a role.
select number, name, slug, root, topics, dimension, embedder, chunker, header_version, generation, shaping_settings
from {indexes}
where (%(name)s::text is null or name = %(name)s) and (%(role)s::text is null or role = %(role)s)
order by number

-- name: index_conflict
-- Existing indexes that conflict with a new index.
select name, root from {indexes} where role = 'current' and (name = %(name)s or root = %(root)s)

-- name: taken_slugs
select slug from {indexes}

-- name: insert_index
insert into {indexes}
    (name, slug, root, topics, dimension, embedder, chunker, header_version, identity, generation, role)
select %(name)s, %(slug)s, %(root)s, %(topics)s::text[], %(dimension)s, %(embedder)s, %(chunker)s, %(header_version)s,
       %(identity)s, generation_floor, %(role)s
from {registry}

-- name: retire_index
update {indexes} set role = 'retired', name = %(replacement)s || '-' where number = %(old)s

-- name: promote_index
-- The new generation is greater than the generation of the replaced index: no generation of a name has two contents.
update {indexes}
set role = 'current', name = %(name)s, last_change = now(),
    generation = greatest(generation, (select generation from {indexes} where number = %(old)s)) + 1
where number = %(new)s

-- name: set_chunker
-- The rows are unchanged, so there is no new generation.
update {indexes}
set chunker = %(chunker)s, header_version = %(header_version)s, identity = %(identity)s
where number = {number}

-- name: set_shaping_settings
update {indexes} set shaping_settings = %(shaping_settings)s where number = {number}

-- name: clear_fingerprints
-- Clears those of the files whose rows other settings would shape differently: a scan then reads these files again, and
-- an empty digest equals no rules, so their rows are made again whatever CocoIndex remembers. The device stays, in bytes 1
-- to 8: it shows whether the files are still mounted. Bytes 17 to 24 are the size.
update {files} set fingerprint = substring(fingerprint for 8) || decode(repeat('00', 40), 'hex'), rules_digest = ''
where (substring(fingerprint from 9) <> decode(repeat('00', 40), 'hex') or rules_digest is distinct from '') and (
    %(everything)s or language_id = any(%(languages)s::text[]) or skip_reason = any(%(skipped)s::text[])
    or substring(fingerprint from 17 for 8) > int8send(%(larger_than)s::int8)
    or filename = any(%(filenames)s::text[]))
returning filename

-- name: set_topics
update {indexes} set topics = %(topics)s::text[] where number = {number}

-- name: delete_index
with unpublished as (delete from {publications} where index_number = {number})
delete from {indexes} where number = {number} returning generation

-- name: raise_generation_floor
-- A statement of its own, after delete_index: that waits for writes of the index, which lock this row last.
update {registry} set generation_floor = greatest(generation_floor, %(generation)s)

-- name: index_version
select version from {indexes} where number = {number}

-- name: outdated_indexes
-- The indexes whose tables are of another version.
select number from {indexes} where version <> %(version)s

-- name: set_index_version
update {indexes} set version = %(version)s where number = {number} and version <> %(version)s

-- name: drop_index_tables
-- With the schema: tables of these names in a schema further behind in the search_path are those of another daemon.
drop table if exists
    {own_schema}.{chunks}, {own_schema}.{files}, {own_schema}.{parses}, {own_schema}.{retained_chunks}, {own_schema}.{words}

-- name: generation
select generation from {indexes} where number = {number}

-- name: counts
select skip_reason, count(*), coalesce(sum(chunk_count), 0) from {files} group by skip_reason order by skip_reason

-- name: file_records
-- The files at or below a path; an empty path is the root.
select filename, content_hash, fingerprint, generation, chunk_count, language_id, skip_reason
from {files}
where %(under)s = '' or filename = %(under)s or (filename >= %(under)s || '/' and filename < %(under)s || '0')
order by filename

-- name: file_page
-- The number of the files at or below a path that pass a filter, and a page of them after a path. Returns at least one row.
with passing as (
    select filename, language_id, chunk_count, skip_reason
    from {files}
    where (%(under)s = '' or filename = %(under)s or (filename >= %(under)s || '/' and filename < %(under)s || '0'))
      and (%(skipped)s or skip_reason is null) and {filter}
)
select (select count(*) from passing), page.*
from (values (1)) as one
left join (select * from passing where filename > %(after)s order by filename limit %(limit)s) as page on true
order by filename

-- name: devices
-- The devices of the files of an index when they were read: the first of the six numbers of a fingerprint.
select distinct substring(fingerprint for 8) from {files} where fingerprint is not null

-- name: file_generations
-- The generations of the files that have chunks.
select filename, generation from {files} where chunk_count > 0

-- name: damaged_files
-- Files with other chunks than their row says, chunks without a file, and words that do not match the chunks.
select filename
from (
    select filename, coalesce(chunk_count, 0) + coalesce(cardinality(s.chunk_numbers), 0) as expected,
           case when s.chunk_numbers is null then f.chunk_numbers
           else (
               select array_agg(chunk_number order by chunk_number)
               from unnest(f.chunk_numbers || s.chunk_numbers) as chunk_number
           ) end as listed
    from {files} f full join {retained_chunks} s using (filename)
) f
full join (
    select filename, count(*) as counted, array_agg(chunk_number order by chunk_number) as stored
    from {chunks}
    group by filename
) c using (filename)
where coalesce(expected, -1) <> coalesce(counted, 0) or listed is distinct from coalesce(stored, '{{}}')
union
select filename from {chunks} c full join {words} w using (filename, chunk_number)
where (select words from {indexes} where number = {number}) = 'complete'
  and (c.chunk_hash is null or w.words is null)
order by filename

-- name: statistics_totals
select
    (select coalesce(sum(symbol_count), 0) from {files}),
    (select last_change from {indexes} where number = {number}),
    (select generation from {indexes} where number = {number})

-- name: table_sizes
select pg_total_relation_size({chunks_name}) + pg_total_relation_size({files_name}) + pg_total_relation_size({parses_name})
    + pg_total_relation_size({retained_chunks_name}) + pg_total_relation_size({words_name})

-- name: distributed_table_sizes
-- The same for the tables of a distributed schema, as they are on their node.
select citus_total_relation_size({chunks_name}) + citus_total_relation_size({files_name})
    + citus_total_relation_size({parses_name}) + citus_total_relation_size({retained_chunks_name})
    + citus_total_relation_size({words_name})

-- name: statistics_languages
select language_id, count(*), sum(chunk_count)
from {files}
where skip_reason is null
group by language_id
order by count(*) desc, language_id

-- name: statistics_parses
select language, parse_status, count(*) from {parses} group by language, parse_status order by language, parse_status

-- name: statistics_skipped
select skip_reason, count(*) from {files} where skip_reason is not null group by skip_reason order by skip_reason

-- name: excluded_files
-- Files that are not searched, in the order of the reasons in `codes`; unknown reasons first.
select filename, skip_reason
from {files}
where skip_reason is not null
order by array_position(%(codes)s::text[], skip_reason) nulls first, filename
limit %(limit)s

-- name: unparsed_files
-- Files that are searched as plain text, since no parser accepts them: their parse message begins with `mark`.
select filename, error_message
from {parses}
where parse_status = 'error' and starts_with(error_message, %(mark)s)
order by filename
limit %(limit)s

-- name: count_outdated_chunks
-- Chunks that were written before their table had columns for symbols.
select count(*) from {chunks} where symbol_kinds is null and {live}

-- name: parse_failures
-- Files that did not parse completely, then skipped files with the reason.
select filename, language, status, error_count, message
from (
    select filename, language, parse_status as status, error_count, error_message as message
    from {parses}
    where parse_status in ('partial', 'error')
    union all
    select filename, language_id, 'skipped', 0, skip_reason from {files} where skip_reason is not null
) as failures
order by status, error_count desc, filename
limit %(limit)s

-- name: table_digest
-- The contents that a fresh index of the same files must equal, byte for byte. Fingerprints, generations, chunk numbers,
-- digests of rules and times differ by nature.
select
    (select count(*) from {chunks}) - (select coalesce(sum(cardinality(chunk_numbers)), 0) from {retained_chunks}),
    (select md5(coalesce(string_agg(md5(row(c.filename, int8range(p.start, p.start + c.byte_count), c.content_text,
        c.embedding, c.block_type, c.hierarchy, c.language_id, c.symbol_type,
        c.symbol_name, c.symbol_signature, p.line, p.line + c.line_count - 1, c.definitions, c.header, c.symbol_kinds,
        c.symbol_names, c.packed_texts)::text), '' order by c.filename, p.start, c.byte_count), ''))
     from {chunks} c join {files} f using (filename) cross join {place_in_file}),
    (select md5(coalesce(string_agg(md5(row(filename, content_hash, chunk_count, symbol_count, language_id,
        skip_reason, scopes, symbols, facts, name_hashes)::text), '' order by filename), '')) from {files}),
    (select md5(coalesce(string_agg(md5(row(filename, language, parse_status, error_count, error_message)::text), ''
        order by filename), '')) from {parses})

-- name: lock_files
-- Locks until the end of the transaction, in the same order everywhere. A separate statement, so that the next read comes
-- after the wait. The lock of words is shared, and comes first: while it is held, the state of words does not become
-- another that concerns writes.
select pg_advisory_xact_lock_shared(25445, {number}), pg_advisory_xact_lock({number}, key)
from (select distinct hashtext(filename) as key from unnest(%(filenames)s::text[]) as input(filename) order by 1) as keys

-- name: stored_files
-- Everything that a write compares with, in the order of the paths; nulls where there is nothing. Each row of chunks gives 28
-- bytes: its number, its length, its digest (which another version may have made longer or shorter).
select f.content_hash, f.chunk_count, f.symbol_count, f.language_id, f.skip_reason, f.scopes, f.symbols,
       f.facts, f.name_hashes, p.language, p.parse_status, p.error_count, p.error_message,
       f.chunk_numbers::text, f.starts::text, f.first_lines::text, c.rows, s.chunk_numbers::text
from unnest(%(filenames)s::text[]) with ordinality as requested(filename, n)
left join {files} f on f.filename = requested.filename
left join {parses} p on p.filename = requested.filename
left join {retained_chunks} s on s.filename = requested.filename
left join lateral (
    select string_agg(
        int8send(chunk_number) || int4send(byte_count)
        || substring(chunk_hash || '\x00000000000000000000000000000000'::bytea for 16), ''::bytea order by chunk_number) as rows
    from {chunks} where {chunks}.filename = requested.filename
) as c on true
order by requested.n

-- name: delete_chunks
delete from {chunks} c
using unnest(%(filenames)s::text[], %(chunk_numbers)s::int8[]) as input(filename, chunk_number)
where c.filename = input.filename and c.chunk_number = input.chunk_number

-- name: copy_chunks
copy {chunks} (filename, chunk_number, packed_texts, embedding, language_id, byte_count, line_count, symbol_kinds,
    symbol_names, chunk_hash)
from stdin (format binary)

-- name: insert_chunk
-- The same for few rows, one at a time: unlike a copy, it may be part of a pipeline.
insert into {chunks} (filename, chunk_number, packed_texts, embedding, language_id, byte_count, line_count, symbol_kinds,
    symbol_names, chunk_hash)
values (%(filename)s, %(chunk_number)s, %(packed_texts)s, %(embedding)s, %(language_id)s, %(byte_count)s, %(line_count)s,
    %(symbol_kinds)s, %(symbol_names)s, %(chunk_hash)s)

-- name: insert_chunks
-- The same rows for a distributed schema of Citus, which would commit a copy in two phases. It sends an insert to its node as
-- it is if the rows come from a table of the schema, and if nothing in it depends on settings or the time, as the text of an
-- array does: so lists are JSON. Vectors are texts until they are there, as the coordinator would read and write each
-- number. The statements below that insert rows have parts for that: see `statements.INSERT_PARTS`.
insert into {chunks} (filename, chunk_number, packed_texts, embedding, language_id, byte_count, line_count, symbol_kinds,
    symbol_names, chunk_hash)
select filename, chunk_number, packed_texts, embedding::halfvec, language_id, byte_count, line_count,
       array(select jsonb_array_elements_text(symbol_kinds)), array(select jsonb_array_elements_text(symbol_names)),
       chunk_hash
from {indexes} cross join unnest(%(filename)s::text[], %(chunk_number)s::int8[], %(packed_texts)s::bytea[],
    %(embedding)s::text[], %(language_id)s::text[], %(byte_count)s::int4[], %(line_count)s::int4[],
    %(symbol_kinds)s::jsonb[], %(symbol_names)s::jsonb[], %(chunk_hash)s::bytea[]) as input(filename, chunk_number,
    packed_texts, embedding, language_id, byte_count, line_count, symbol_kinds, symbol_names, chunk_hash)
where number = {number}

-- name: words_state
-- none, filling or complete. No row: the index is gone.
select words from {indexes} where number = {number}

-- name: delete_words
-- Deletes the words of files whose chunks are gone. A statement of its own, after the one that deletes chunks: so it sees the
-- words that a fill has stored while that one waited for it.
delete from {words} w
where w.filename = any(%(filenames)s::text[])
  and not exists (select from {chunks} c where (c.filename, c.chunk_number) = (w.filename, w.chunk_number))

-- name: insert_words
insert into {words} (filename, chunk_number, words)
select filename, chunk_number, to_tsvector('simple', text)
from {beside} unnest(%(filenames)s::text[], %(chunk_numbers)s::int8[], %(texts)s::text[])
    as input(filename, chunk_number, text)
where {registered}
on conflict (filename, chunk_number) do update set words = excluded.words

-- name: bump_generation
-- No row: the index is gone, or has other rules by now, and nothing of this transaction may stay.
update {indexes}
set generation = generation + 1, last_change = now()
where number = {number} and identity = %(identity)s and shaping_settings = %(shaping_settings)s
returning generation

-- name: generation_by_rules
-- In place of bump_generation where no row has changed but fingerprints.
select generation from {indexes}
where number = {number} and identity = %(identity)s and shaping_settings = %(shaping_settings)s

-- name: raise_generation
-- Above a generation that was acknowledged, and lost since: no generation of a name is used for two contents. It begins another
-- lineage (`lineage.LINEAGE`): followers may have read the lost commits.
update {indexes} set generation = (greatest(generation, %(lost)s) / %(lineage)s + 1) * %(lineage)s where number = {number}
returning generation

-- name: begin_lineage
-- The same for all indexes, where nobody knows which generations were lost.
update {indexes} set generation = (generation / %(lineage)s + 1) * %(lineage)s

-- name: begin_lineage_floor
-- The same for the indexes to come, after begin_lineage: one that was lost may have had the number and the name of one of them.
update {registry} set generation_floor =
    (greatest(generation_floor, (select max(generation) from {indexes})) / %(lineage)s + 1) * %(lineage)s

-- name: upsert_files
-- After bump_generation.
insert into {files}
    (filename, content_hash, fingerprint, chunk_count, symbol_count, language_id, skip_reason, scopes, symbols,
    facts, name_hashes, rules_digest, chunk_numbers, starts, first_lines, generation)
select filename, content_hash, fingerprint, chunk_count, symbol_count, language_id, skip_reason, scopes, symbols,
       facts, name_hashes, rules_digest, {chunk_numbers_array}, {starts_array},
       {first_lines_array}, {new_generation}
from {beside} unnest(%(filenames)s::text[], %(hashes)s::bytea[], %(fingerprints)s::bytea[], %(chunk_counts)s::int4[],
    %(symbol_counts)s::int4[], %(languages)s::text[], %(skip_reasons)s::text[], %(scopes)s::bytea[],
    %(symbols)s::bytea[], %(facts)s::bytea[], %(name_hashes)s::bytea[], %(rules_digests)s::bytea[],
    %(chunk_numbers)s::text[], %(starts)s::text[], %(first_lines)s::text[]) as input(filename, content_hash, fingerprint,
    chunk_count, symbol_count, language_id, skip_reason, scopes, symbols, facts, name_hashes, rules_digest,
    chunk_numbers, starts, first_lines)
where {registered}
on conflict (filename) do update
set content_hash = excluded.content_hash, fingerprint = excluded.fingerprint, generation = excluded.generation,
    chunk_count = excluded.chunk_count, symbol_count = excluded.symbol_count, language_id = excluded.language_id,
    skip_reason = excluded.skip_reason, scopes = excluded.scopes, symbols = excluded.symbols,
    facts = excluded.facts, name_hashes = excluded.name_hashes, rules_digest = excluded.rules_digest,
    chunk_numbers = excluded.chunk_numbers, starts = excluded.starts, first_lines = excluded.first_lines

-- name: upsert_retained_chunks
-- After bump_generation.
insert into {retained_chunks} (filename, chunk_numbers, since)
select filename, {chunk_numbers_array}, {change_time}
from {beside} unnest(%(filenames)s::text[], %(chunk_numbers)s::text[]) as input(filename, chunk_numbers)
where {registered}
on conflict (filename) do update set chunk_numbers = excluded.chunk_numbers, since = excluded.since

-- name: delete_retained_chunks
delete from {retained_chunks} where filename = any(%(filenames)s::text[])

-- name: upsert_parses
-- After bump_generation.
insert into {parses} (filename, language, parse_status, error_count, error_message, created_at)
select filename, language, status, error_count, error_message, {change_time}
from {beside} unnest(%(filenames)s::text[], %(languages)s::text[], %(statuses)s::text[],
    %(error_counts)s::int4[], %(error_messages)s::text[]) as input(filename, language, status, error_count, error_message)
where {registered}
on conflict (filename) do update
set language = excluded.language, parse_status = excluded.parse_status, error_count = excluded.error_count,
    error_message = excluded.error_message, created_at = excluded.created_at
where ({parses}.language, {parses}.parse_status, {parses}.error_count, {parses}.error_message)
    is distinct from (excluded.language, excluded.parse_status, excluded.error_count, excluded.error_message)

-- name: set_fingerprints
-- With the rules: equal rows may come from other ones.
update {files} f set fingerprint = input.fingerprint, rules_digest = input.rules_digest
from unnest(%(filenames)s::text[], %(fingerprints)s::bytea[], %(rules_digests)s::bytea[])
    as input(filename, fingerprint, rules_digest)
where f.filename = input.filename
  and (f.fingerprint, f.rules_digest) is distinct from (input.fingerprint, input.rules_digest)

-- name: refresh_fingerprints
-- Stores the changed fingerprints, and names every file whose rows are those of the content that was read, by these rules.
with read_files as materialized (
    select * from unnest(%(filenames)s::text[], %(hashes)s::bytea[], %(fingerprints)s::bytea[])
        as input(filename, content_hash, fingerprint)
), refreshed as (
    update {files} f
    set fingerprint = read_files.fingerprint
    from read_files
    where f.filename = read_files.filename and f.content_hash = read_files.content_hash
      and coalesce(f.rules_digest, %(rules_digest)s::bytea) = %(rules_digest)s::bytea
      and f.fingerprint is distinct from read_files.fingerprint
)
select f.filename
from {files} f join read_files using (filename)
where f.content_hash = read_files.content_hash
  and coalesce(f.rules_digest, %(rules_digest)s::bytea) = %(rules_digest)s::bytea

-- name: delete_parses
delete from {parses} where filename = any(%(filenames)s::text[])

-- name: delete_files
-- The chunks of a deleted file are retained, in place of those retained before; it returns their numbers, since in a
-- distributed schema this is left to upsert_retained_chunks. Rows without a file are deleted; nulls stand for a deleted parse
-- result. Arrays are unnested: searching one again for each row of a large file would take too long.
with file as (delete from {files} where filename = any(%(filenames)s::text[]) returning filename, chunk_numbers),
     parse as (delete from {parses} where filename = any(%(filenames)s::text[]) returning 1),
     {retain_deleted}
     listed as (
         select filename, unnest(chunk_numbers) as chunk_number from file
         union all
         select s.filename, unnest(s.chunk_numbers)
         from {retained_chunks} s
         where s.filename = any(%(filenames)s::text[])
           and not exists (select from file where file.filename = s.filename and file.chunk_numbers <> '{{}}')
     ),
     chunks as (
         delete from {chunks} c
         using (
             select filename, chunk_number from {chunks} where filename = any(%(filenames)s::text[])
             except
             select filename, chunk_number from listed
         ) as unknown
         where c.filename = unknown.filename and c.chunk_number = unknown.chunk_number
     )
select filename, chunk_numbers::text from file
union all
select null, null from (select from parse limit 1) as any_parse

-- name: retain_deleted
-- A part of delete_files, for plain tables.
retained as (
    insert into {retained_chunks} (filename, chunk_numbers)
    select filename, chunk_numbers from file where chunk_numbers <> '{{}}'
    on conflict (filename) do update set chunk_numbers = excluded.chunk_numbers, since = excluded.since
),

-- name: texts
-- The packed texts of a row of chunks (store.chunks.packed_texts); those of an older row as they are, in the same layout.
coalesce(packed_texts, '\x00'::bytea || convert_to(json_build_array(header, block_type, hierarchy, symbol_type, symbol_name,
    symbol_signature, definitions)::text, 'UTF8') || '\x00'::bytea || convert_to(content_text, 'UTF8'))

-- name: columns
-- The columns of a candidate, as `candidate_from_row` reads them; a score follows. c: the chunk, p: its position.
c.filename, p.start, p.start + c.byte_count, p.line, p.line + c.line_count - 1, c.language_id, {texts}

-- name: search_state
-- Whether there are retained chunks, and whether the words of all chunks are stored.
select exists (select from {retained_chunks}),
       exists (select from {indexes} where number = {number} and words = 'complete')

-- name: live
-- Condition on a row of chunks: it is not a retained one. Statements that join a position drop retained rows as well, but
-- only behind a limit. With `any`, PostgreSQL would estimate that nearly all rows are retained, and would not use an index
-- until it has enough rows.
not exists (
    select from {retained_chunks} s
    where s.filename = {chunks}.filename
      and s.chunk_numbers[width_bucket({chunks}.chunk_number, s.chunk_numbers)] = {chunks}.chunk_number
)

-- name: filter_live
-- Condition on a row of chunks: it passes a filter and is live.
{filter} and {live}

-- name: filter_words
-- Condition on a row of chunks: it passes a filter, and its words pass another. For complete words.
{filter} and (filename, chunk_number) in (select filename, chunk_number from {words} where {words_filter})

-- name: place
-- The position of a chunk c, as p, if the chunk is live.
lateral (
    select starts[width_bucket(c.chunk_number, chunk_numbers)] as start,
           first_lines[width_bucket(c.chunk_number, chunk_numbers)] as line
    from {files}
    where {files}.filename = c.filename and chunk_numbers[width_bucket(c.chunk_number, chunk_numbers)] = c.chunk_number
    offset 0
) as p

-- name: place_in_file
-- The position as in place, where the file f of the chunk is joined already.
lateral (
    select f.starts[width_bucket(c.chunk_number, f.chunk_numbers)] as start,
           f.first_lines[width_bucket(c.chunk_number, f.chunk_numbers)] as line
    where f.chunk_numbers[width_bucket(c.chunk_number, f.chunk_numbers)] = c.chunk_number
    offset 0
) as p

-- name: requested
-- Keys of chunks with the state of their files, and with the last chunk that begins at or before each key. No two chunks of
-- a file begin at the same byte.
unnest(%(filenames)s::text[], %(starts)s::int8[], %(ends)s::int8[]) with ordinality as requested(filename, a, b, turn)
cross join lateral (
    select filename, content_hash, generation, scopes, symbols, chunk_numbers[width_bucket(a, starts)] as chunk_number,
           starts[width_bucket(a, starts)] as start, first_lines[width_bucket(a, starts)] as line
    from {files} where {files}.filename = requested.filename offset 0
) as p

-- name: vector_exact
-- `offset 0` excludes the vector index: every matching row is compared.
with best as materialized (
    select filename, chunk_number, distance
    from (
        select filename, chunk_number, embedding <=> %(vector)s::halfvec as distance
        from {chunks}
        where embedding is not null and {filter}
        offset 0
    ) as compared
    order by distance, filename, chunk_number
    limit %(limit)s
)
select {columns}, 1 - best.distance
from best join {chunks} c using (filename, chunk_number), {place}
order by best.distance, filename, chunk_number

-- name: vector_nearest
-- The order must be the bare distance, or the vector index is not used. A relaxed scan returns rows unordered, so they are
-- sorted again.
with best as materialized (
    select filename, chunk_number, embedding <=> %(vector)s::halfvec as distance
    from {chunks}
    where {filter}
    order by embedding <=> %(vector)s::halfvec
    limit %(limit)s
)
select {columns}, 1 - best.distance
from best join {chunks} c using (filename, chunk_number), {place}
order by best.distance, filename, chunk_number

-- name: set_vector_scan
-- For one transaction: scan the index until enough rows pass the filter. `set local` reaches the node of a distributed
-- schema, set_config does not.
set local hnsw.iterative_scan = relaxed_order;
set local hnsw.ef_search = {breadth};
set local hnsw.max_scan_tuples = 20000

-- name: has_vector_index
select coalesce((select indisvalid from pg_index where indexrelid = to_regclass({chunks_vector_name})), false)

-- name: estimate_matches
-- PostgreSQL's estimate from its statistics; nothing is read.
explain (format json) select from {chunks} where {filter}

-- name: count_path_matches
select coalesce(sum(chunk_count), 0) from {files} where {filter}

-- name: keyword_all
-- Needs complete words.
with best as materialized (
    select filename, chunk_number, ts_rank(words, plainto_tsquery('simple', %(text)s)) as score
    from {words} join {chunks} using (filename, chunk_number)
    where words @@ plainto_tsquery('simple', %(text)s) and {filter}
    order by score desc, filename, chunk_number
    limit %(limit)s
)
select {columns}, best.score
from best join {chunks} c using (filename, chunk_number), {place}
order by best.score desc, filename, chunk_number

-- name: chunk_texts
-- The packed texts of chunks; the daemon searches them.
select filename, chunk_number, chunk_hash, {texts} from {chunks} where {filter}

-- name: time_limit
-- The seconds that a statement of this transaction may take; 0: no limit.
select extract(epoch from current_setting('statement_timeout')::interval)::float8

-- name: chosen_chunks
-- Condition on a row of chunks: the daemon has chosen it by its texts, and its texts are unchanged.
(filename, chunk_number, chunk_hash) in (
    select * from unnest(%(chosen_filenames)s::text[], %(chosen_numbers)s::int8[], %(chosen_hashes)s::bytea[]))

-- name: set_text_scan
-- For one transaction: a read of many texts may take longer than another search.
set local statement_timeout = {limit_ms}

-- name: filter_group
-- Condition on a row of chunks: it passes a filter and is of one of these files.
{filter} and filename = any(%(group)s::text[])

-- name: query_terms
-- The lexemes of a text.
select tsvector_to_array(to_tsvector('simple', %(text)s))

-- name: ranked_chunks
-- Chunks by number with their scores, in order.
select {columns}, input.score
from unnest(%(filenames)s::text[], %(chunk_numbers)s::int8[], %(scores)s::float8[]) with ordinality
    as input(filename, chunk_number, score, n)
join {chunks} c on (c.filename, c.chunk_number) = (input.filename, input.chunk_number), {place}
order by n

-- name: first_matches
-- For queries without words for the ranking.
with best as materialized (
    select filename, chunk_number from {chunks} where {filter} order by filename, chunk_number limit %(limit)s
)
select {columns}, 0::float8
from best join {chunks} c using (filename, chunk_number), {place}
order by c.filename, c.chunk_number

-- name: term_frequencies
-- The lexemes of a text with the share of chunks that contain them, as of the last ANALYZE; 0: rare or unknown. From the
-- catalogs of the server that has the table.
select term, coalesce(frequency, 0) as share,
       (select greatest(reltuples, 0) from pg_class where oid = to_regclass({words_name})) as total
from unnest(tsvector_to_array(to_tsvector('simple', %(text)s))) as input(term)
left join (
    select common.element, common.frequency
    from pg_stats
    join pg_namespace on nspname = schemaname
    join pg_class on relnamespace = pg_namespace.oid and relname = tablename,
        unnest(most_common_elems::text::text[], most_common_elem_freqs) as common(element, frequency)
    where pg_class.oid = to_regclass({words_name}) and attname = 'words'
) as statistics on element = term
order by 2, 1

-- name: keyword_any
-- ts_rank ignores rarity, so each term is weighted; 1: divide by the logarithm of the length. Needs complete words.
with best as materialized (
    select filename, chunk_number, (
        select sum(weight * ts_rank(words, term::tsquery, 1))
        from unnest(%(terms)s::text[], %(weights)s::float8[]) as input(term, weight)
    ) as score
    from {words} join {chunks} using (filename, chunk_number)
    where words @@ %(query)s::tsquery and {filter}
    order by score desc, filename, chunk_number
    limit %(limit)s
)
select {columns}, best.score
from best join {chunks} c using (filename, chunk_number), {place}
order by best.score desc, filename, chunk_number

-- name: rank_texts
-- The rank of texts that are in no table, in their order; 0: a term is missing.
select case when document @@ words then ts_rank(document, words) else 0 end
from unnest(%(texts)s::text[]) with ordinality as input(text, n),
     to_tsvector('simple', input.text) as document, plainto_tsquery('simple', %(query)s) as words
order by n

-- name: chunks_with_files
-- Chunks, their files and the generation of the index, as of one moment. A single row of nulls: none of the chunks exists; no
-- row: the index is gone. The first row of a file has its symbols.
select {columns}, 0::float8, i.generation, p.content_hash, p.generation, p.scopes,
       case when turn = min(turn) over (partition by p.filename) then p.symbols end
from {indexes} i
left join (
    {requested} join {chunks} c
        on (c.filename, c.chunk_number) = (p.filename, p.chunk_number) and (p.start, c.byte_count) = (a, b - a)
) on true
where i.number = {number}
order by turn

-- name: symbol_files
-- Files with symbols that pass a filter: whether one has its name as written in the filter, and whether one has another.
select filename, bool_or(written), bool_or(not written)
from {chunks} cross join lateral (
    select {written} as written from unnest(symbol_kinds, symbol_names) as s(kind, name) where {symbol}
) as matching
where {filter} and {live} and filename >= %(first_path)s
group by filename
order by not bool_or(written), filename
limit %(limit)s

-- name: file_symbols
select filename, generation, language_id, symbols from {files} where filename = any(%(filenames)s::text[])

-- name: file_names
-- The searched files with the hashes of their names; with paths, those among them.
select filename, generation, coalesce(name_hashes, ''::bytea)
from {files}
where skip_reason is null and (%(filenames)s::text[] is null or filename = any(%(filenames)s::text[]))

-- name: searched_generations
select filename, generation from {files} where skip_reason is null

-- name: file_code
-- Precise uses count while the file has the content that they were made for.
select f.filename, f.generation, f.language_id, coalesce(f.symbols, ''::bytea), coalesce(f.facts, ''::bytea),
       f.content_hash, coalesce(p.uses, ''::bytea)
from {files} f
left join {precise_uses} p
    on p.index_number = {number} and p.filename = f.filename and p.content_hash = f.content_hash
where f.skip_reason is null and f.filename = any(%(filenames)s::text[])

-- name: replace_precise_uses
insert into {precise_uses} (index_number, filename, content_hash, uses)
select number, filename, content_hash, uses
from {indexes} cross join unnest(%(filenames)s::text[], %(content_hashes)s::bytea[], %(uses)s::bytea[])
    as input(filename, content_hash, uses)
where number = {number}
on conflict (index_number, filename) do update set content_hash = excluded.content_hash, uses = excluded.uses

-- name: delete_changed_precise_uses
-- The precise uses of files that have changed or are gone.
delete from {precise_uses} p
where p.index_number = {number} and not exists (
    select from {files} f where f.filename = p.filename and f.content_hash = p.content_hash
)

-- name: delete_precise_uses
delete from {precise_uses} where index_number = {number}

-- name: move_precise_uses
update {precise_uses} set index_number = %(new)s where index_number = %(old)s

-- name: count_precise_uses
-- Files with precise uses, and those of them that have changed since.
select count(*), count(*) filter (where f.content_hash is distinct from p.content_hash)
from {precise_uses} p
left join {files} f on f.filename = p.filename
where p.index_number = {number}

-- name: precise_use_state
-- A version of the precise uses: the number of rows, and the transactions that wrote them. Each import or removal changes it.
select count(*), coalesce(sum(xmin::text::bigint), 0)::bigint from {precise_uses} where index_number = {number}

-- name: file_chunks
-- Each file with its chunks in order; a file without chunks has one row of nulls.
select f.filename, f.generation, f.language_id, p.start, p.start + c.byte_count, p.line, p.line + c.line_count - 1,
       {texts}, c.embedding
from {files} f
left join {chunks} c
    on c.filename = f.filename and f.chunk_numbers[width_bucket(c.chunk_number, f.chunk_numbers)] = c.chunk_number
left join {place_in_file} on true
where %(filenames)s::text[] is null or f.filename = any(%(filenames)s::text[])
order by f.filename, c.chunk_number

-- name: content_columns
-- The columns of an index in memory, of a chunk c of a file f at a position p; vectors in wire format. Rows older than
-- symbol_kinds have one kind, for all their names.
f.filename, f.generation, f.language_id, p.start, p.start + c.byte_count, {texts},
       coalesce(c.symbol_kinds, array_fill(coalesce(c.symbol_type, ''), array[cardinality(c.definitions) + 2])),
       coalesce(c.symbol_names, c.definitions || array[coalesce(c.symbol_name, ''), '']),
       hash_record_extended(row(p.start, p.line, c.chunk_hash, c.embedding is null), 0),
       halfvec_send(c.embedding)

-- name: file_texts
-- Like file_chunks, but only with the contents of an index in memory.
select {content_columns}
from {files} f
join {chunks} c on c.filename = f.filename
cross join {place_in_file}
where %(filenames)s::text[] is null or f.filename = any(%(filenames)s::text[])
order by f.filename, c.chunk_number

-- name: few_texts
-- Like file_texts, for few files. Each file is looked up separately: until PostgreSQL has statistics it expects hundreds of
-- chunks in a file, and would rather read the whole table.
select {content_columns}
from {files} f
cross join lateral (select * from {chunks} where {chunks}.filename = f.filename offset 0) as c
cross join {place_in_file}
where f.filename = any(%(filenames)s::text[])
order by f.filename, c.chunk_number

-- name: file_vectors
-- The vectors of the chunks of each file in wire format, in the order of few_texts; `missing` stands for one that is null.
select f.filename, f.generation, (
    select string_agg(coalesce(halfvec_send(embedding), %(missing)s), ''::bytea order by chunk_number)
    from {chunks}
    where filename = f.filename and f.chunk_numbers[width_bucket(chunk_number, f.chunk_numbers)] = chunk_number
)
from {files} f
where f.filename = any(%(filenames)s::text[]) and f.chunk_count > 0

-- name: chunk_counts
select filename, chunk_count from {files} where chunk_count > 0 order by filename

-- name: set_one_snapshot
-- For one transaction that reads: all its statements see one moment.
set transaction isolation level repeatable read, read only

-- name: file_digests
-- One digest for each file, over the digests of its chunks in file_texts: it shows whether the chunks are unchanged.
select f.filename, f.generation, f.language_id, chunks_of_file.digest
from {files} f
join lateral (
    select bit_xor(hash_record_extended(row(p.start, p.line, chunk_hash, embedding is null), 0)) as digest
    from {chunks} c cross join {place_in_file}
    where c.filename = f.filename
) as chunks_of_file on chunks_of_file.digest is not null
where f.filename = any(%(filenames)s::text[])

-- name: file_states
-- The states of files and of the index, in one snapshot. No row: the index is gone.
select generation,
       array(select filename from {files} where filename = any(%(filenames)s::text[]) order by filename),
       array(select content_hash from {files} where filename = any(%(filenames)s::text[]) order by filename),
       array(select f.generation from {files} f where filename = any(%(filenames)s::text[]) order by filename),
       array(select scopes from {files} where filename = any(%(filenames)s::text[]) order by filename),
       array(select case when %(with_symbols)s then symbols end
             from {files} where filename = any(%(filenames)s::text[]) order by filename)
from {indexes}
where number = {number}

-- name: files_without_chunks
-- Files that are searched and have only blanks.
select filename, language_id from {files} where chunk_count = 0 and skip_reason is null

-- name: chunks_at_lines
-- Each line with the first byte of its chunk, in the order of the lines. Lines without a chunk are left out.
select l.filename, l.line, f.starts[number]
from unnest(%(filenames)s::text[], %(lines)s::integer[]) with ordinality as l(filename, line, n)
join {files} f on f.filename = l.filename
cross join width_bucket(l.line, f.first_lines) as number
join {chunks} c on c.filename = f.filename and c.chunk_number = f.chunk_numbers[number]
where l.line < f.first_lines[number] + c.line_count
order by n

-- name: count_matching_chunks
select count(*) from {chunks} where filename = %(filename)s and {filter} and {live}

-- name: lock_vectors_maintenance
-- Locks for the session, since an index cannot be built concurrently inside a transaction.
select pg_try_advisory_lock(25444, {number})

-- name: unlock_vectors_maintenance
select pg_advisory_unlock(25444, {number})

-- name: vector_index_state
select
    coalesce((select indisvalid from pg_index where indexrelid = to_regclass({chunks_vector_name})), false),
    array(select relname::text from pg_index join pg_class on pg_class.oid = indexrelid
        where indrelid = to_regclass({chunks_name}) and not indisvalid),
    (select coalesce(sum(chunk_count), 0) from {files})

-- name: dead_share
-- The number of dead rows of chunks for each live row. From the catalogs of the server that has the table.
select coalesce((select n_dead_tup::float8 / greatest(n_live_tup, 1)
    from pg_stat_user_tables where relid = to_regclass({chunks_name})), 0) as dead_share

-- name: drop_index
drop index concurrently if exists {index}

-- name: build_vector_index
create index concurrently {chunks_vector} on {chunks}
using hnsw (embedding halfvec_cosine_ops) with (m = 16, ef_construction = 64)

-- name: rebuild_vector_index
reindex index concurrently {chunks_vector}

-- name: drop_vector_index
drop index concurrently if exists {chunks_vector}

-- name: expired_retained_chunks
-- Files whose retained chunks are too old, and the oldest while there are more retained chunks than allowed.
select filename
from (
    select filename, since,
           sum(cardinality(chunk_numbers)) over (order by since desc, filename desc)
               > greatest(%(minimum)s, (select sum(chunk_count) from {files})) as beyond
    from {retained_chunks}
) as aged
where beyond or since < now() - make_interval(secs => %(age_s)s)

-- name: drop_retained_chunks
-- The files must be locked.
with dropped as (
         delete from {retained_chunks} where filename = any(%(filenames)s::text[]) returning filename, chunk_numbers
     ),
     deleted as (
         delete from {chunks} c using dropped
         where c.filename = dropped.filename and c.chunk_number = any(dropped.chunk_numbers)
         returning 1
     )
select count(*) from deleted

-- name: lock_words_maintenance
-- Locks for the session, as lock_vectors_maintenance does.
select pg_try_advisory_lock(25446, {number})

-- name: unlock_words_maintenance
select pg_advisory_unlock(25446, {number})

-- name: lock_words
-- Waits for running writes, and blocks new writes until the end of the transaction.
select pg_advisory_xact_lock(25445, {number})

-- name: set_words_state
update {indexes} set words = %(state)s where number = {number}

-- name: has_stored_words
select exists (select from {words})

-- name: truncate_words
truncate {words}

-- name: words_to_fill
-- A page of chunks in the order of the key, with their texts; null: the words are stored.
with page as materialized (
    select filename, chunk_number, {texts} as texts
    from {chunks}
    where (filename, chunk_number) > (%(filename)s::text, %(chunk_number)s::int8)
    order by filename, chunk_number
    limit %(limit)s
)
select filename, chunk_number,
       case when not exists (
           select from {words} w where (w.filename, w.chunk_number) = (page.filename, page.chunk_number)
       ) then texts end
from page
order by filename, chunk_number

-- name: fill_words
-- Stores words of chunks that are there still: none of them is deleted before this is committed. Words that a write has stored
-- meanwhile are those of a newer chunk with the same number.
insert into {words} (filename, chunk_number, words)
select c.filename, c.chunk_number, to_tsvector('simple', input.text)
from unnest(%(filenames)s::text[], %(chunk_numbers)s::int8[], %(texts)s::text[]) as input(filename, chunk_number, text)
join {chunks} c on (c.filename, c.chunk_number) = (input.filename, input.chunk_number)
for key share of c
on conflict (filename, chunk_number) do nothing

-- name: words_index_state
-- Whether the index of words exists, and whether it is valid.
select count(*) > 0, coalesce(bool_and(indisvalid), false) from pg_index where indexrelid = to_regclass({words_text_name})

-- name: build_words_index
-- Words of new rows wait in a list (limit in kilobytes) and enter the index together. A search reads the list as well; a
-- full one adds half a millisecond.
create index concurrently {words_text} on {words}
using gin (words) with (fastupdate = on, gin_pending_list_limit = 1024)

-- name: drop_words_index
drop index concurrently if exists {words_text}

-- name: analyze_words
analyze {words}

-- name: vacuum
vacuum (analyze) {chunks}

-- name: analyze
analyze {chunks}

-- name: texts_in_files
-- Files with their generation, and the first bytes and packed texts of their chunks that pass a filter; nulls: none does.
select f.filename, f.generation, f.starts[width_bucket(c.chunk_number, f.chunk_numbers)], c.texts
from {files} f
left join lateral (
    select chunk_number, {texts} as texts
    from {chunks}
    where filename = f.filename and f.chunk_numbers[width_bucket(chunk_number, f.chunk_numbers)] = chunk_number
      and {filter}
) as c on true
where f.filename = any(%(filenames)s::text[])

-- name: texts_in_chunks
-- The files of chunks with their generation, and the first bytes and packed texts of those of the chunks that pass a filter;
-- nulls: the chunk does not, or is gone.
select p.filename, p.generation, case when {filter} then a end, case when {filter} then {texts} end
from {requested}
left join {chunks} c
    on (c.filename, c.chunk_number) = (p.filename, p.chunk_number) and (p.start, c.byte_count) = (a, b - a)

-- name: phrases_anywhere
-- The first bytes of all chunks that pass a filter, by file, packed.
select f.filename,
       (select string_agg(int8send(f.starts[width_bucket(chunk_number, f.chunk_numbers)]), ''::bytea)
        from unnest(numbers) as chunk_number)
from (
    select filename, array_agg(chunk_number) as numbers from {chunks} where {filter} group by filename
) as c
join {files} f using (filename)

-- name: set_phrase_scan
-- For one transaction: memory for every row that the index of words returns, since a lossy page means reading rows for
-- nothing; and a time limit.
set local work_mem = '64MB';
set local statement_timeout = {limit_ms}

-- name: set_host
update {registry} set host = %(host)s where host <> %(host)s

-- name: quoted_schema
-- A schema as `registry_schema` names it.
select quote_ident(%(schema)s)

-- name: schema_versions
-- The versions of a registry, and the lowest and the highest of the tables of its indexes.
select version, (select min(version) from {indexes} where role = 'current'),
       (select max(version) from {indexes} where role = 'current')
from {registry}

-- name: registry_owner
select incarnation::text, host from {registry}

-- name: rows_state
-- The generation of an index, the identity of its table of files, since restored rows are in another table, and that of the
-- database. No row: the index is gone.
select generation, to_regclass({files_name})::oid::bigint, incarnation::text
from {indexes} cross join {registry}
where number = {number}

-- name: files_table
-- The identity of the table of files in the database of the daemon. A node of Citus has another one, which changes when the
-- schema moves: so it is asked for by itself where there is Citus.
select to_regclass({files_name})::oid::bigint

-- name: changed_files
-- The generation of an index, the number of its files, and those that changed after a generation: as of one moment. One row
-- at least; none: the index is gone.
select i.generation, (select count(*) from {files}), f.filename, f.generation
from {indexes} i
left join {files} f on f.generation > %(generation)s
where i.number = {number}

-- name: path_lengths
-- The number of files with a path of each length, in characters.
select char_length(filename), count(*)::int from {files} group by 1

-- name: paths_of_lengths
select filename from {files} where char_length(filename) = any(%(lengths)s::int[])

-- name: listen
listen {channel}

-- name: ask_owner
-- The present moment, and a notification to the daemon that owns a registry: it arrives after the moment.
select pg_current_xact_id()::text::bigint, clock_timestamp(), pg_notify(%(channel)s, %(question)s)

-- name: moment
select pg_current_xact_id()::text::bigint, clock_timestamp()

-- name: set_quick_commit
-- For one transaction. Its commit does not wait for the disk: if the publication is lost, it is requested again.
set local synchronous_commit = off

-- name: publish
-- Writes nothing if the index is gone.
insert into {publications} (index_number, transaction, begun, generation, stale_code, stale_reason, clean_at)
select {number}, %(transaction)s, %(begun)s, generation, %(stale_code)s, %(stale_reason)s,
       case when %(stale_code)s::text is null then %(begun)s::timestamptz end
from {indexes}
where number = {number}
on conflict (index_number) do update
set transaction = excluded.transaction, begun = excluded.begun, generation = excluded.generation,
    stale_code = excluded.stale_code, stale_reason = excluded.stale_reason,
    clean_at = coalesce(excluded.clean_at, {publications}.clean_at)

-- name: publications
select index_number, transaction, begun, generation, stale_code, stale_reason,
       extract(epoch from clock_timestamp() - clean_at)::float8
from {publications}
where %(number)s::integer is null or index_number = %(number)s

-- name: is_owned
-- Whether a daemon holds the instance lock of a registry.
select exists (
    select from pg_locks
    where locktype = 'advisory' and granted
      and database = (select oid from pg_database where datname = current_database())
      and classid::bigint << 32 | objid::bigint = %(key)s and objsubid = 1
)

-- name: stored_texts
-- The texts of files by position. Each file is looked up separately, as in few_texts.
select f.filename, f.content_hash, p.start, p.start + c.byte_count, p.line, {texts}
from {files} f
cross join lateral (select * from {chunks} where {chunks}.filename = f.filename offset 0) as c
cross join {place_in_file}
where f.filename = any(%(filenames)s::text[])
order by f.filename, p.start
