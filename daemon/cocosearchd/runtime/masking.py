"""Masks secrets in URLs and connection strings, for settings, status, errors and logs. Pure.

An address may hold a secret in any part: `https://KEY@host`, `/v1/KEY`, `?key=KEY`, `#KEY`,
`password=KEY`. Only values that are known to be harmless stay: unknown parameters are masked as
well.
"""

import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator

MASK = "***"
# Parameters without secrets, of libpq (section 32.1.2 of PostgreSQL's manual) and of embedding
# servers.
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
LONG_NAME = 12  # a user's name of this length may be a token; shorter ones occur in other texts
SHORTEST_SECRET = 4  # shorter secrets occur in every text, and are easily guessed
SHORTEST_PIECE = 8  # an error may quote a piece of a secret, because a client split the address
_DELIMITER = re.compile(r"[/?#@:;&=\s'\"\\]")
# Each of these takes linear time: a run of letters is matched once, from its beginning.
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
    """Mask the secrets of a URL, with or without a scheme, or of a connection string of libpq."""
    if "://" in address:
        return mask_urls(address)
    if _is_connection_string(address):
        return _KEYWORD.sub(_masked_keyword, address)
    return _masked_rest("", address)


def mask_urls(text: str) -> str:
    """Mask the secrets of all URLs in a text."""
    if "://" not in text:
        return text
    return _URL.sub(
        lambda url: f"{url['scheme']}://{_masked_rest(url['scheme'].lower(), url['rest'])}", text
    )


def find_secrets(*addresses: str) -> tuple[str, ...]:
    """Return the secrets that `mask_address` masks, as written and decoded, the longest first."""
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
    """Mask each of `secrets` in a text, as written and as JSON writes it."""
    for secret in secrets:
        text = text.replace(secret, MASK).replace(json.dumps(secret)[1:-1], MASK)
    return text


def _forms(part: str) -> set[str]:
    decoded = urllib.parse.unquote(part)
    return {part, decoded, urllib.parse.unquote_plus(part), urllib.parse.quote(decoded, safe="")}


def _is_connection_string(text: str) -> bool:
    return any(
        match["name"].lower() in HARMLESS or "pass" in match["name"]
        for match in _KEYWORD.finditer(text)
    )


def _masked_keyword(match: re.Match[str]) -> str:
    value = mask_urls(match["value"]) if match["name"].lower() in HARMLESS else MASK
    return f"{match['name']}{match['equals']}{value}"


def _masked_rest(scheme: str, rest: str) -> str:
    """Mask the part of a URL behind `scheme://`."""
    authority, path, query, fragment = _split(rest)
    user, at, host = authority.rpartition("@")
    masked = f"{_masked_user(scheme, user)}{at}{host}{_masked_path(path)}"
    if query is not None:
        masked += "?" + _PAIR.sub(lambda pair: _masked_pair(pair[0]), query)
    return masked if fragment is None else f"{masked}#{MASK}"


def _split(rest: str) -> tuple[str, str, str | None, str | None]:
    """Return authority, path, query and fragment; query and fragment may be missing."""
    end = _authority_end(rest, 0)
    if _has_cut_password(rest[:end]) and "@" in rest[end:]:
        end = _authority_end(rest, rest.rindex("@"))
    path_and_query, hash_mark, fragment = rest[end:].partition("#")
    path, question_mark, query = path_and_query.partition("?")
    return rest[:end], path, query if question_mark else None, fragment if hash_mark else None


def _authority_end(rest: str, start: int) -> int:
    return next((index for index in range(start, len(rest)) if rest[index] in "/?#"), len(rest))


def _has_cut_password(authority: str) -> bool:
    """Return True if an unencoded "/", "?" or "#" has split a password: no port follows the colon."""
    _, colon, behind = authority.rpartition(":")
    return bool(colon) and "]" not in authority and not behind.isdecimal()


def _masked_user(scheme: str, user: str) -> str:
    """Mask a user, except the name of a database's user: any other name may be a token."""
    name, colon, _ = user.partition(":")
    if scheme in DATABASE_SCHEMES and colon:
        return f"{name}:{MASK}"
    return user if scheme in DATABASE_SCHEMES or not user else MASK


def _masked_path(path: str) -> str:
    """Mask segments of a path that look like keys, and values of parameters (`;name=value`)."""
    path = _PARAMETER.sub(rf"\g<name>{MASK}", path)
    return "/".join(MASK if _is_key_like(segment) else segment for segment in path.split("/"))


def _is_key_like(segment: str) -> bool:
    decoded = urllib.parse.unquote(segment)
    words = (match[0] for match in _LONG_WORD.finditer(decoded))
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
    """Yield the parts of an address that may be secrets."""
    for url in _URL.finditer(address):
        authority, path, query, fragment = _split(url["rest"])
        yield from _user_parts(url["scheme"].lower(), authority.rpartition("@")[0])
        yield from filter(_is_key_like, path.split("/"))
        yield from (match["value"] for match in _PARAMETER.finditer(path))
        yield from _query_parts(query or "")
        yield fragment or ""
    if "://" in address:
        return
    if "@" in address:
        yield from _parts(f"any://{address}")
    if _is_connection_string(address):
        yield from _keyword_parts(address)


def _user_parts(scheme: str, user: str) -> Iterator[str]:
    """Yield the password; except for databases, also the user part and a long name (a token?)."""
    name, colon, password = user.partition(":")
    yield password
    if scheme not in DATABASE_SCHEMES:
        yield user
        if colon and len(name) >= LONG_NAME:
            yield name


def _query_parts(query: str) -> Iterator[str]:
    for pair in _PAIR_END.split(query):
        name, equals, value = pair.partition("=")
        if urllib.parse.unquote_plus(name).lower() not in HARMLESS:
            yield value if equals else name


def _keyword_parts(connection_string: str) -> Iterator[str]:
    for match in _KEYWORD.finditer(connection_string):
        if match["name"].lower() not in HARMLESS:
            yield _ESCAPED.sub(r"\1", match["value"].strip("'"))
