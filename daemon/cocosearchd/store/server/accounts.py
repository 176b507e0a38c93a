"""Chooses an account that no other program uses, for the embedded server of a root daemon.

PostgreSQL refuses to run as root. An account that other services share, such as `nobody`, would let
each of them read and change the index, and make the daemon read directories as root.
"""

import grp
import hashlib
import os
import pwd
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.server.processes import uids_in_use

SYSTEM_USER = "cocosearch"
SHARED_USER = "nobody"
SHARED_UID = 65534
# Numbers that systemd leaves unused (https://systemd.io/UIDS-GIDS): above those that SSSD gives to
# directory users (ldap_idmap_range_max is 2,000,200,000), and, for containers that map 65,536
# numbers, below those of systemd's services.
PRIVATE_UIDS = (range(2_100_000_000, 2_140_000_000), range(60_578, 61_184))
TRIES = 64
SUBORDINATE_FILES = (Path("/etc/subuid"), Path("/etc/subgid"))
MAP_FILES = (Path("/proc/self/uid_map"), Path("/proc/self/gid_map"))


@dataclass(frozen=True, slots=True)
class Account:
    """A user and a group number.

    `name` is empty for a number without an entry in the user database.
    """

    uid: int
    gid: int
    name: str = ""

    @property
    def label(self) -> str:
        """The account, for a sentence."""
        return f"user {self.name}" if self.name else f"the account number {self.uid}"


def server_account(home: Path, data_owner: int | None) -> Account | None:
    """Choose the account for a server whose files lie in `home`; None if the caller is not root.

    It is the owner of existing data, unless that is root or a shared account; otherwise the system
    user `cocosearch`; otherwise an unused number that is derived from `home`. Raises
    `StoreUnavailable` if there is no such number.
    """
    if os.geteuid() != 0:
        return None
    if data_owner and not is_shared(data_owner):
        return _account(data_owner)
    try:
        user = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        uid = private_uid(os.fsencode(home))
        return Account(uid, uid)
    return Account(user.pw_uid, user.pw_gid, user.pw_name)


def is_shared(uid: int) -> bool:
    """Return whether unrelated services run as `uid`."""
    return uid == SHARED_UID or _account(uid).name == SHARED_USER


def initialising_account(account: Account) -> Account:
    """Return the account that `initdb` runs as: `initdb` refuses a user number without a name.

    For such a number, it is `nobody` with the group of `account` only. A process of `nobody` without
    this group cannot enter a directory that only the group may enter, nor trace `initdb`: ptrace(2)
    compares groups as well.
    """
    if account.name:
        return account
    names = (user for user in pwd.getpwall() if user.pw_uid != 0)
    lender = min(names, key=lambda user: user.pw_name != SHARED_USER, default=None)
    if lender is None:
        raise _no_account()
    return Account(lender.pw_uid, account.gid, lender.pw_name)


def private_uid(seed: bytes) -> int:
    """Return a user and group number that nothing on this machine uses.

    The same seed gives the same number as long as the number stays unused. Raises
    `StoreUnavailable`.
    """
    digest = int.from_bytes(hashlib.sha256(seed).digest()[:8])
    used = uids_in_use()
    maps = [_read_id_ranges(path) for path in MAP_FILES]
    subordinates = list(_subordinates())
    for numbers in PRIVATE_UIDS:
        for attempt in range(TRIES):
            number = numbers[(digest + attempt) % len(numbers)]
            is_mapped = all(_contains(ranges, number) for ranges in maps)
            if is_mapped and _is_unused(number, used, subordinates):
                return number
    raise _no_account()


def _account(uid: int) -> Account:
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return Account(uid, uid)
    return Account(uid, user.pw_gid, user.pw_name)


def _is_unused(number: int, used: Collection[int], subordinates: Sequence[range]) -> bool:
    if number in used or _contains(subordinates, number) or _account(number).name:
        return False
    try:
        grp.getgrgid(number)
    except KeyError:
        return True
    return False


def _read_id_ranges(path: Path) -> list[range]:
    """Read the numbers that exist in this user namespace.

    The lines are those of user_namespaces(7): `inside outside count`.
    """
    try:
        lines = path.read_text("ascii").splitlines()
    except OSError:  # no Linux: no namespaces
        return [range(1 << 32)]
    rows = [tuple(map(int, line.split())) for line in lines]
    return [range(inside, inside + count) for inside, _, count in rows]


def _subordinates() -> Iterator[range]:
    """Read the ranges that users' containers may use.

    The lines are those of subuid(5): `name:first:count`.
    """
    for path in SUBORDINATE_FILES:
        try:
            lines = path.read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        for line in lines:
            _, _, numbers = line.partition(":")
            first, _, count = numbers.partition(":")
            if first.isdecimal() and count.isdecimal():
                yield range(int(first), int(first) + int(count))


def _contains(ranges: Sequence[range], number: int) -> bool:
    return any(number in numbers for numbers in ranges)


def _no_account() -> StoreUnavailable:
    return StoreUnavailable(
        "PostgreSQL does not run as root, and there is no account for it alone",
        f"run `useradd --system --no-create-home {SYSTEM_USER}`, or set COCOSEARCH_DATABASE_URL",
    )
