-- Every statement of the store. {chunks}, {files} and {parses} stand for the tables of one index; %(name)s is a value.
-- `-- name:` begins a statement; the comment below it says what it is for.

-- name: begin_schema_change
-- One at a time in the whole database; a rebuild may wait for running queries longer than a search may.
select pg_advisory_xact_lock(109356061589506),
       set_config('statement_timeout', '0', true),
       set_config('lock_timeout', '60s', true)

-- name: registry_exists
select (to_regclass('cocosearch_registry') is not null)::int

-- name: registry_version
select version from cocosearch_registry

-- name: set_registry_version
update cocosearch_registry set version = %(version)s where version <> %(version)s

-- name: incarnation
select incarnation::text from cocosearch_registry

-- name: indexes
-- All of them, or the one of a name.
select number, name, slug, root, topics, dimension, embedder, chunker, header_version, generation
from cocosearch_indexes
where %(name)s::text is null or name = %(name)s
order by number

-- name: index_conflict
-- What a new index would collide with.
select name, root from cocosearch_indexes where name = %(name)s or root = %(root)s

-- name: taken_slugs
select slug from cocosearch_indexes

-- name: insert_index
insert into cocosearch_indexes
    (name, slug, root, topics, dimension, embedder, chunker, header_version, identity, generation)
select %(name)s, %(slug)s, %(root)s, %(topics)s::text[], %(dimension)s, %(embedder)s, %(chunker)s, %(header_version)s,
       %(identity)s, generation_floor
from cocosearch_registry

-- name: set_identity
update cocosearch_indexes
set dimension = %(dimension)s, embedder = %(embedder)s, chunker = %(chunker)s, header_version = %(header_version)s,
    identity = %(identity)s, generation = generation + 1, last_change = now()
where number = %(number)s

-- name: set_topics
update cocosearch_indexes set topics = %(topics)s::text[] where number = %(number)s

-- name: delete_index
with gone as (delete from cocosearch_indexes where number = %(number)s returning generation)
update cocosearch_registry
set generation_floor = greatest(generation_floor, (select generation from gone))
where exists (select from gone)

-- name: index_version
select version from cocosearch_indexes where number = %(number)s

-- name: set_index_version
update cocosearch_indexes set version = %(version)s where number = %(number)s and version <> %(version)s

-- name: drop_index_tables
drop table if exists {chunks}, {files}, {parses}

-- name: generation
select generation from cocosearch_indexes where number = %(number)s

-- name: counts
select count(*), coalesce(sum(chunk_count), 0) from {files}

-- name: file_records
-- `first` and `last` bound the paths below a directory; both null: all.
select filename, content_hash, fingerprint, generation, chunk_count, language_id, skip_reason
from {files}
where %(under)s = '' or filename = %(under)s or (filename >= %(under)s || '/' and filename < %(under)s || '0')
order by filename

-- name: damaged_files
-- Files whose chunks are not as many as their row says, and chunks of no file.
select filename
from (select filename, chunk_count from {files}) f
full join (select filename, count(*) as counted from {chunks} group by filename) c using (filename)
where coalesce(chunk_count, -1) <> coalesce(counted, 0)
order by filename

-- name: statistics_totals
select
    (select coalesce(sum(symbol_count), 0) from {files}),
    pg_total_relation_size({chunks_name}) + pg_total_relation_size({files_name}) + pg_total_relation_size({parses_name}),
    (select last_change from cocosearch_indexes where number = {number}),
    (select generation from cocosearch_indexes where number = {number})

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

-- name: parse_failures
select filename, language, parse_status, error_count, error_message
from {parses}
where parse_status in ('partial', 'error')
order by parse_status, error_count desc, filename
limit %(limit)s

-- name: table_digest
-- What a fresh index of the same files must equal, byte for byte. Fingerprints, generations and times differ by nature.
select
    (select count(*) from {chunks}),
    (select md5(coalesce(string_agg(md5(row(filename, location, content_text, content_tsv_input, content_tsv, embedding,
        block_type, hierarchy, language_id, symbol_type, symbol_name, symbol_signature, start_line, end_line,
        definitions, header, chunk_hash)::text), '' order by filename, location), '')) from {chunks}),
    (select md5(coalesce(string_agg(md5(row(filename, content_hash, chunk_count, symbol_count, language_id,
        skip_reason)::text), '' order by filename), '')) from {files}),
    (select md5(coalesce(string_agg(md5(row(filename, language, parse_status, error_count, error_message)::text), ''
        order by filename), '')) from {parses})
