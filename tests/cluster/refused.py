"""Statements that a distributed schema of Citus refuses, as patterns with an example of each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Refused:
    """`pattern` finds such a statement in lower case; `example` is one about a table `t (n)`."""

    pattern: str
    example: str


STORAGE = Refused(r"\bset storage\b", "alter table t alter column n set storage plain")
REFUSED = (
    Refused(
        r"\badd column\b[^,;]*\b(?:check|unique|primary key)\b",
        "alter table t add column m integer check (m > 0)",
    ),
    Refused(
        r"\badd column\b[^,;]*\bas identity\b",
        "alter table t add column m integer generated always as identity",
    ),
    Refused(r"\brename constraint\b", "alter table t rename constraint t_pkey to t_key"),
    Refused(r"\bset statistics\b", "alter table t alter column n set statistics 10"),
    Refused(r"\bcluster on\b", "alter table t cluster on t_pkey"),
    Refused(r"\binherits\b", "create table s () inherits (t)"),
    Refused(
        r"\btrigger\b",
        "create trigger r before insert on t for each row execute function suppress_redundant_updates_trigger()",
    ),
)
