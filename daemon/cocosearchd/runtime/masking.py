"""Masks secrets in URLs and connection strings, the one place for it: settings, status, errors and
logs use this. Pure.

An address may hold a secret in any part: `https://KEY@host`, `/v1/KEY`, `?key=KEY`, `#KEY`,
`password=KEY`. What is not known to be harmless is masked, so a parameter that nobody thought of is
as well.
"""

import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator

MASK = "***"
# Parameters of libpq (section 32.1.2 of PostgreSQL's manual) and of embedding servers whose values
# are no secrets.
HARMLESS = frozenset(
    {
        *(
            "host",
            "hostaddr",
            "port",
            "dbname",
            "user",
            "sslmode",
            "sslrootcert",
            "sslcert",
            "sslkey",
            "sslcrl",
        ),
        *(
            "application_name",
            "client_encoding",
            "connect_timeout",
            "target_session_attrs",
            "load_balance_hosts",
        ),
        *(
            "passfile",
            "service",
            "require_auth",
            "channel_binding",
            "gssencmode",
            "krbsrvname",
            "gsslib",
        ),
        *(
            "keepalives",
            "keepalives_idle",
            "keepalives_interval",
            "keepalives_count",
            "tcp_user_timeout",
        ),
        *(
            "sslnegotiation",
            "sslsni",
            "ssl_min_protocol_version",
            "ssl_max_protocol_version",
            "sslcompression",
        ),
        *("api-version", "api_version", "version", "model", "dimensions", "timeout"),
    }
)
DATABASE_SCHEMES = ("postgresql", "postgres")
LONG_NAME = 12  # a user's name that may be a token; shorter ones are words of other texts as well
SHORTEST_SECRET = 4  # what is shorter is found in every text, and guessed at once
SHORTEST_PIECE = 8  # of a secret that an error quotes in part: a client cut the address elsewhere
_DELIMITER = re.compile(r"[/?#@:;&=\s'\"\\]")
# Each of these takes linear time: a run of letters is looked at once, from its beginning.
_URL = re.compile(r"(?<![A-Za-z0-9+.-])(?P<scheme>[A-Za-z0-9+.-]++)://(?P<rest>[^\s\"'<>|]*)")
# A keyword of a connection string and its value; libpq allows blanks around "=", and quotes with
# escapes.
_KEYWORD = re.compile(
    r"(?P<name>\b[A-Za-z_]+)(?P<equals>\s*=\s*)(?P<value>'(?:[^'\\]|\\.)*'?|(?:[^\s'\\]|\\.)+)"
)
_LONG_WORD = re.compile(r"[A-Za-z0-9]{16,}+")
_PAIR, _PAIR_END = re.compile(r"[^&;]++"), re.compile(r"[&;]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PARAMETER = re.compile(r"(?P<name>;[^=/;]*=)(?P<value>[^/;]+)")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def mask_address(address: str) -> str:
    """A URL, with or without a scheme, or a connection string of libpq, without secrets."""
    if "://" in address:
        return mask_urls(address)
    if _is_connection_string(address):
        return _KEYWORD.sub(_masked_keyword, address)
    return _masked_rest("", address)


def mask_urls(text: str) -> str:
    """Any text, the URLs in it without secrets."""
    if "://" not in text:
        return text
    return _URL.sub(
        lambda url: f"{url['scheme']}://{_masked_rest(url['scheme'].lower(), url['rest'])}", text
    )


def find_secrets(*addresses: str) -> tuple[str, ...]:
    """The secrets that `mask_address` leaves out of addresses, as written and as decoded, the
    longest first.
    """
    parts = {part for address in addresses for part in _parts(address)}
    pieces = {
        piece for part in parts for piece in _DELIMITER.split(part) if len(piece) >= SHORTEST_PIECE
    }
    secrets = {form for part in parts | pieces for form in _forms(part)}
    return tuple(
        sorted(
            (secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True
        )
    )


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """`text` in which each of `secrets` is masked, also as JSON writes it."""
    for secret in secrets:
        text = text.replace(secret, MASK).replace(json.dumps(secret)[1:-1], MASK)
    return text


def _forms(part: str) -> set[str]:
    decoded = urllib.parse.unquote(part)
    return {part, decoded, urllib.parse.unquote_plus(part), urllib.parse.quote(decoded, safe="")}


def _is_connection_string(text: str) -> bool:
    return any(
        found["name"].lower() in HARMLESS or "pass" in found["name"]
        for found in _KEYWORD.finditer(text)
    )


def _masked_keyword(found: re.Match[str]) -> str:
    value = mask_urls(found["value"]) if found["name"].lower() in HARMLESS else MASK
    return f"{found['name']}{found['equals']}{value}"


def _masked_rest(scheme: str, rest: str) -> str:
    """A URL behind `scheme://`."""
    authority, path, query, fragment = _split(rest)
    user, at, host = authority.rpartition("@")
    shown = f"{_masked_user(scheme, user)}{at}{host}{_masked_path(path)}"
    if query is not None:
        shown += "?" + _PAIR.sub(lambda pair: _masked_pair(pair[0]), query)
    return shown if fragment is None else f"{shown}#{MASK}"


def _split(rest: str) -> tuple[str, str, str | None, str | None]:
    """Authority, path, query and fragment, of which the last two may be missing."""
    end = _authority_end(rest, 0)
    if _has_cut_password(rest[:end]) and "@" in rest[end:]:
        end = _authority_end(rest, rest.rindex("@"))
    rest_of_it, hash_mark, fragment = rest[end:].partition("#")
    path, mark, query = rest_of_it.partition("?")
    return rest[:end], path, query if mark else None, fragment if hash_mark else None


def _authority_end(rest: str, start: int) -> int:
    return next((place for place in range(start, len(rest)) if rest[place] in "/?#"), len(rest))


def _has_cut_password(authority: str) -> bool:
    """Whether a password was cut at a "/", "?" or "#" that is not encoded: behind the colon stands
    no port.
    """
    _, colon, behind = authority.rpartition(":")
    return bool(colon) and "]" not in authority and not behind.isdecimal()


def _masked_user(scheme: str, user: str) -> str:
    """The name of a database's user is shown; anybody else's may be a token."""
    name, colon, _ = user.partition(":")
    if scheme in DATABASE_SCHEMES and colon:
        return f"{name}:{MASK}"
    return user if scheme in DATABASE_SCHEMES or not user else MASK


def _masked_path(path: str) -> str:
    """A path without segments that look like keys, and without the values of parameters
    (`;name=value`).
    """
    path = _PARAMETER.sub(rf"\g<name>{MASK}", path)
    return "/".join(MASK if _is_key_like(segment) else segment for segment in path.split("/"))


def _is_key_like(segment: str) -> bool:
    decoded = urllib.parse.unquote(segment)
    words = (found[0] for found in _LONG_WORD.finditer(decoded))
    return any(not word.isalpha() and not word.isdecimal() for word in words) or bool(
        _UUID.search(decoded)
    )


def _masked_pair(pair: str) -> str:
    name, equals, value = pair.partition("=")
    if (
        urllib.parse.unquote_plus(name).lower() in HARMLESS
        and equals
        and "://" not in urllib.parse.unquote(value)
    ):
        return pair
    return f"{name}={MASK}" if equals else MASK


def _parts(address: str) -> Iterator[str]:
    """The texts of an address that may be secrets, whichever of them are masked."""
    for url in _URL.finditer(address):
        authority, path, query, fragment = _split(url["rest"])
        user = authority.rpartition("@")[0]
        database = url["scheme"].lower() in DATABASE_SCHEMES
        name, colon, password = user.partition(":")
        yield from (password,) if database else (user, password)
        yield name if colon and not database and len(name) >= LONG_NAME else ""
        yield from filter(_is_key_like, path.split("/"))
        yield from (found["value"] for found in _PARAMETER.finditer(path))
        for pair in _PAIR_END.split(query or ""):
            name, equals, value = pair.partition("=")
            if urllib.parse.unquote_plus(name).lower() not in HARMLESS:
                yield value if equals else name
        yield fragment or ""
    if "://" not in address and "@" in address:
        yield from _parts(f"any://{address}")
    if "://" not in address and _is_connection_string(address):
        for found in _KEYWORD.finditer(address):
            if found["name"].lower() not in HARMLESS:
                yield _ESCAPED.sub(r"\1", found["value"].strip("'"))
