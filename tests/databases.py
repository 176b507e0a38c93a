"""Databases of tests: copies of a template, which are emptied and used again while they equal it.

A new copy writes 300 files, which costs more than most tests that use it.
"""

import contextlib
from collections.abc import Iterator
from itertools import count

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

NUMBERS = count(1)
# Dropped tables leave dead rows in the catalogs, which every plan reads.
MAX_USES = 20
END_CONNECTIONS_MS = 5_000

# The tables that a database has, without those of extensions and of PostgreSQL itself.
TABLES = """
select c.oid::regclass::text from pg_class c
where c.oid >= 16384 and c.relkind = 'r' and not exists (
    select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
order by 1
"""
# A worker of autovacuum may be there at any time, which only a superuser may end. `truncate` and
# `drop database` end it by themselves, `with (force)` does not.
END_CONNECTIONS = """
select coalesce(bool_and(pg_terminate_backend(pid, %s)), true) from pg_stat_activity
where datname = %s and backend_type = 'client backend' and pid <> pg_backend_pid()
"""
# Everything that is defined in the database, and was not made by initdb. Numbers of objects count:
# copies of one template have equal ones. Sizes, files and statistics do not.
DIGEST = """
with defined (row) as (
    select to_jsonb(c) - array['relfilenode', 'relpages', 'reltuples', 'relallvisible', 'relallfrozen',
        'relfrozenxid', 'relminmxid'] from pg_class c where oid >= 16384
    union all select to_jsonb(a) from pg_attribute a where attrelid >= 16384
    union all select to_jsonb(d) from pg_attrdef d
    union all select to_jsonb(c) from pg_constraint c where oid >= 16384
    union all select to_jsonb(i) from pg_index i where indexrelid >= 16384
    union all select to_jsonb(t) from pg_trigger t
    union all select to_jsonb(p) from pg_policy p
    union all select to_jsonb(r) from pg_rewrite r where oid >= 16384
    union all select to_jsonb(s) from pg_statistic_ext s
    union all select to_jsonb(s) from pg_sequence s
    -- nearly all are the extension's, which only a superuser can change
    union all select jsonb_build_array('types', count(*), max(oid)) from pg_type where oid >= 16384
    union all select jsonb_build_array('functions', count(*), max(oid)) from pg_proc where oid >= 16384
    union all select jsonb_build_array('operators', count(*), max(oid)) from pg_operator where oid >= 16384
    union all select jsonb_build_array('casts', count(*), max(oid)) from pg_cast where oid >= 16384
    union all select jsonb_build_array('text search', count(*), max(oid)) from pg_ts_config where oid >= 16384
    union all select to_jsonb(n) from pg_namespace n where nspname !~ '^pg_temp_|^pg_toast_temp_'
    union all select to_jsonb(e) from pg_extension e
    union all select to_jsonb(a) from pg_default_acl a
    union all select to_jsonb(l) from pg_largeobject_metadata l
    union all select to_jsonb(s) from pg_db_role_setting s join pg_database b on b.oid = s.setdatabase
        where b.datname = current_database()
    union all select jsonb_build_object('acl', b.datacl, 'limit', b.datconnlimit, 'owner', b.datdba)
        from pg_database b where b.datname = current_database()
)
select md5(string_agg(row::text, e'\\n' order by row::text collate "C")) from defined
"""


class DatabasePool:
    """The copies of one template on one server. `database` lends one to a test."""

    def __init__(self, server: str, template: str) -> None:
        self._server = server
        self._template = template
        self._spares = list[tuple[str, int]]()
        self._tables = dict[str, bytes]()  # the template's, with their rows
        self._digest = ""

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The DSN of an empty, migrated database."""
        name, uses = self._spares.pop() if self._spares else (self._create(), 0)
        try:
            yield self._dsn(name)
        finally:
            if uses + 1 < MAX_USES and self._try_to_empty(name):
                self._spares.append((name, uses + 1))
            else:
                self._drop(name)

    def _dsn(self, name: str) -> str:
        return make_conninfo(self._server, dbname=name)

    def _create(self) -> str:
        name = f"test_{next(NUMBERS)}"
        with psycopg.connect(self._server, autocommit=True) as connection:
            # Without fsync, copying files is the quickest way.
            copy = "create database {} template {} strategy file_copy"
            connection.execute(
                sql.SQL(copy).format(sql.Identifier(name), sql.Identifier(self._template))
            )
        if not self._digest:
            with psycopg.connect(self._dsn(name)) as connection:
                self._digest = _digest(connection)
                self._tables = {table: _rows(connection, table) for table in _tables(connection)}
        return name

    def _drop(self, name: str) -> None:
        """Drop a database, even if connections are left."""
        with psycopg.connect(self._server, autocommit=True) as connection:
            drop_database(connection, name)

    def _try_to_empty(self, name: str) -> bool:
        """Like `_empty`; False also where the server refuses it, since the database is then dropped."""
        try:
            return self._empty(name)
        except psycopg.Error:
            return False

    def _empty(self, name: str) -> bool:
        """Make a database as the template is; return whether it is."""
        with psycopg.connect(self._dsn(name)) as connection:
            ended = connection.execute(END_CONNECTIONS, [END_CONNECTIONS_MS, name]).fetchone()
            if ended != (True,):
                return False
            present = _tables(connection)
            if not self._tables.keys() <= set(present):
                return False
            if extra_tables := [table for table in present if table not in self._tables]:
                connection.execute("drop table " + ", ".join(extra_tables) + " cascade")
            self._restore_rows(connection)
            return _digest(connection) == self._digest

    def _restore_rows(self, connection: psycopg.Connection) -> None:
        """Give the tables of the template their rows, and their sequences a new start."""
        tables = ", ".join(self._tables)
        connection.execute(f"truncate {tables} restart identity")
        for table, rows in self._tables.items():
            if rows:
                with connection.cursor().copy(f"copy {table} from stdin") as copy:
                    copy.write(rows)


def drop_database(connection: psycopg.Connection, name: str) -> None:
    """Drop a database over a connection to another one, even if connections are left."""
    connection.execute(END_CONNECTIONS, [END_CONNECTIONS_MS, name])
    connection.execute(sql.SQL("drop database {}").format(sql.Identifier(name)))


def _tables(connection: psycopg.Connection) -> list[str]:
    return [table for (table,) in connection.execute(TABLES)]


def _rows(connection: psycopg.Connection, table: str) -> bytes:
    with connection.cursor().copy(f"copy {table} to stdout") as copy:
        return b"".join(bytes(block) for block in copy)


def _digest(connection: psycopg.Connection) -> str:
    row = connection.execute(DIGEST).fetchone()
    assert row
    return str(row[0])
