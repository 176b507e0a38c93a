"""Who may connect to the embedded server, and as which role: the kernel names the user, no password
is kept.

`peer` (PostgreSQL's manual, 20.9) asks the kernel for the user at the other end of the socket. The
map lets one user in, the daemon's own. It connects as a role that owns its tables and may run no
program and read no file of the server; the superuser makes that role and the extension, and is used
for nothing else.
"""

import os
import pwd

import psycopg

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.connection.statements import statement

SUPERUSER, DAEMON = "cocosearch", "cocosearchd"  # the first is initdb's --username
MAP = "cocosearch"
CONNECT_TIMEOUT_S = 5


def access_rules() -> str:
    """The text of pg_hba.conf: local connections of the two roles, by the kernel's word."""
    return f"local all {SUPERUSER},{DAEMON} peer map={MAP}\n"


def user_map() -> str:
    """The text of pg_ident.conf: the user of this process may be either role. Raises
    `StoreUnavailable`.
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
    """Make the daemon's role, the owner of the database and of all tables in it, unless it is so
    already.

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
