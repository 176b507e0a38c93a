"""Skip reasons: contents that are not indexed, on disk and unsaved."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.indexing.pipeline.skip_rules import (
    SkipRules,
    content_skip_reason,
    is_secret,
    skip_reason,
)

BLOCK = (
    "-----BEGIN {0}-----\n"
    + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n" * 4
    + "-----END {0}-----\n"
)
RULES = SkipRules(max_file_bytes=1000, index_secrets=False, any_type=False)


def test_contents_of_any_language_are_skipped() -> None:
    assert content_skip_reason(b"x = 1\n", 100) is None
    assert content_skip_reason(b"", 100) is None
    assert content_skip_reason(b"x" * 101, 100) == "too_large"
    assert content_skip_reason(b"text" * 5000 + b"\0", 1 << 20) == "binary"
    minified = b"/* licence */\n" + b"function a(b){return b};" * 400
    assert content_skip_reason(minified, 1 << 20) == "minified"
    assert content_skip_reason(b"a = 1\n" * 5000, 1 << 20) is None
    assert content_skip_reason(b"A long paragraph of prose. " * 20 + b"\n", 1 << 20) is None


def test_rules_decide_on_secrets_and_types() -> None:
    key = BLOCK.format("PRIVATE KEY").encode()
    lenient = SkipRules(max_file_bytes=1000, index_secrets=True, any_type=True)
    assert skip_reason(key, "", RULES) == "secret"
    assert skip_reason(b"text", "", RULES) == "unsupported"
    assert skip_reason(key, "", lenient) is None
    assert skip_reason(b"text", "python", RULES) is None
    assert skip_reason(b"x" * 1001, "", lenient) == "too_large"


@pytest.mark.parametrize(
    "kind", ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
)
def test_key_material_is_secret(kind: str) -> None:
    assert is_secret(BLOCK.format(kind).encode())
    assert is_secret(b"Bag Attributes\r\n" + BLOCK.format(kind).replace("\n", "\r\n").encode())


def test_code_that_speaks_of_keys_is_not_secret() -> None:
    block = BLOCK.format("PRIVATE KEY")
    assert not is_secret(f'KEY = """\n{block}"""\n{"x = load(KEY)  # a test" * 40}\n'.encode())
    assert not is_secret(b'PEM = re.compile("-----BEGIN PRIVATE KEY-----")\n')
    assert not is_secret(BLOCK.format("CERTIFICATE").encode())


def test_keys_that_begin_and_do_not_end_take_bounded_time() -> None:
    start = time.process_time()
    assert not is_secret(b"-----BEGIN PRIVATE KEY-----\nabc\n" * 20_000)
    assert time.process_time() - start < 2


KEY_LINES = [
    f"-----{end} {kind}PRIVATE KEY-----" for end in ("BEGIN", "END") for kind in ("", "RSA ")
]


@given(st.lists(st.sampled_from(KEY_LINES)))
def test_keys_are_as_one_pattern_finds_them(lines: list[str]) -> None:
    pattern = r"^-----BEGIN ((?:RSA )?PRIVATE KEY)-----$.*?^-----END \1-----$"
    text = "\n".join(["x", *lines, "x" * 60])
    keys = sum(len(match[0]) for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL))
    assert is_secret(text.encode()) == (2 * keys > len(text))
