"""Access rules and roles of the embedded server: the kernel identifies the user, without passwords.

`peer` (PostgreSQL's manual, 20.9) asks the kernel for the user at the other end of the socket. The
map admits only the daemon's user. The daemon connects as a role that owns its tables, and that may
not run programs or read files on the server. The superuser creates that role and the extension, and
orders checkpoints (`used_wal`). It has no other use.
"""

import os
import pwd

import psycopg

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.connection.statements import statement

SUPERUSER = "cocosearch"  # initdb's --username
DAEMON = "cocosearchd"
MAP = "cocosearch"
CONNECT_TIMEOUT_S = 5


def access_rules() -> str:
    """Return the text of pg_hba.conf: local connections of the two roles, by `peer`."""
    return f"local all {SUPERUSER},{DAEMON} peer map={MAP}\n"


def user_map() -> str:
    """Return the text of pg_ident.conf: the user of this process may be either role.

    Raises `StoreUnavailable` for a user without a name.
    """
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        raise StoreUnavailable(
            f"user number {uid} has no name on this machine, and PostgreSQL asks for one",
            "add it to /etc/passwd, or set COCOSEARCH_DATABASE_URL",
        ) from None
    quoted = '"' + name.replace('"', '""') + '"'
    return "".join(f"{MAP} {quoted} {role}\n" for role in (SUPERUSER, DAEMON))


def prepare_roles(superuser_dsn: str) -> None:
    """Create the daemon's role if needed; it owns the database and all its tables.

    One transaction. Raises `StoreUnavailable`.
    """
    try:
        with psycopg.connect(
            superuser_dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S
        ) as connection:
            row = connection.execute(statement("daemon_role_is_ready")).fetchone()
            if not (row and row[0]):
                connection.execute(statement("make_daemon_role"))
    except psycopg.Error as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise StoreUnavailable(
            f"PostgreSQL could not set up the role {DAEMON}: {line}",
            "see postgres.log in the state directory",
        ) from error
