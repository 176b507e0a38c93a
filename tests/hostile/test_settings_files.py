"""Settings files of a hostile repository: each is read in time linear to its length, or refused in
one sentence.
"""

import os
import textwrap
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cocosearchd.config.index_settings import read_index_settings
from cocosearchd.config.layers import MAX_EXPANDED, load_settings
from cocosearchd.config.project import read_project
from cocosearchd.config.settings_files import MAX_SETTINGS_BYTES, read_env, read_yaml
from cocosearchd.errors import BadSettings
from tests.machine_speed import slowness

SIZE = 60_000
LONGEST_S = 2.0  # CPU; the slowest linear case takes 0.4 s for as many bytes on a slow machine
LONGEST_SENTENCE = 500  # characters of an error
YAML_PUMPS: dict[str, bytes] = {
    "items": b"a:\n" + b" - a\n" * (SIZE // 5),
    "sequences": b"[" * SIZE,
    "mappings": b"{a: " * (SIZE // 4),
    "indents": b"".join(b" " * i + b"a:\n" for i in range(300)),
    "keys": b"".join(b"k%d: 1\n" % i for i in range(SIZE // 9)),
    "escapes": b'a: "' + b"\\\\" * (SIZE // 2),
    "doubled quotes": b"a: '" + b"''" * (SIZE // 2),
    "blanks": b'a: "' + b" " * SIZE + b'"',
    "line ends": b'a: "' + b"\n" * SIZE + b'"',
    "anchors": b"a: [" + b",".join(b"&a%d b" % i for i in range(SIZE // 10)) + b"]",
    "aliases": b"a: &a [b]\nc: [" + b"*a," * (SIZE // 3) + b"]",
    "laughs": b"a0: &a0 [x]\n"
    + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (i, i, i - 1, i - 1) for i in range(1, 60)),
    "digits": b"a: " + b"1" * SIZE,
    "digits with lines": b"a: " + b"1_" * (SIZE // 2) + b"x",
    "base sixty": b"a: " + b"1:1" * (SIZE // 3) + b"x",
    "date": b"a: 2001-01-01" + b" " * SIZE + b"x",
    "words": b"a: " + b"b " * (SIZE // 2),
    "block": b"a: |\n" + b"   \n" * (SIZE // 4),
    "comments": b"#" * SIZE,
    "binary": b"a: !!binary " + b"A" * SIZE,
}
ENV_PUMPS: dict[str, bytes] = {
    "blanks before a comment": b"A=b" + b" " * SIZE + b"c",
    "tabs before a comment": b"A=b" + b"\t " * (SIZE // 2) + b"c",
    "comments": b"A=b" + b" #" * (SIZE // 2),
    "escaped quotes": b"A='" + b"\\'" * (SIZE // 2),
    "escaped double quotes": b'A="' + b'\\"' * (SIZE // 2),
    "open quotes": b"A='\n" * (SIZE // 4),
    "exports": b"export " * (SIZE // 7),
    "equals": b"=" * SIZE,
    "name": b"A" * SIZE,
    "blank lines": b"\n" * SIZE + b"A=1",
}
PUMPS = [
    *((read_yaml, name, text) for name, text in YAML_PUMPS.items()),
    *((read_env, name, text) for name, text in ENV_PUMPS.items()),
]


HALF = SIZE // 4
# Each alias repeats what its anchor has: the square of the length.
REPEATED: dict[str, bytes] = {
    "sections": b"a: &a\n"
    + b"".join(b"  k%d: 1\n" % i for i in range(HALF // 12))
    + b"".join(b"b%d: *a\n" % i for i in range(HALF // 12)),
    "lists": b"a: &a ["
    + b"1," * (HALF // 2)
    + b"]\n"
    + b"".join(b"b%d: *a\n" % i for i in range(HALF // 12)),
    "a long key": b'? "' + b"k" * SIZE + b'"\n: 1',
}


@pytest.mark.parametrize("name", REPEATED)
def test_what_repeats_or_is_long_is_refused_before_it_is_kept(tmp_path: Path, name: str) -> None:
    (tmp_path / "cocosearch.yaml").write_bytes(REPEATED[name])
    began = time.thread_time()
    error = refusal(lambda: read_project(os.fsencode(tmp_path), {}))
    assert time.thread_time() - began < LONGEST_S * slowness()
    assert error is not None
    assert error.hint
    assert len(error.message) < 400


def test_answers_are_not_flooded_with_names_of_a_project(tmp_path: Path) -> None:
    ignored = "".join(f"log_{'x' * 80}{i}: 1\n" for i in range(1_000))
    (tmp_path / "cocosearch.yaml").write_text(f"log:\n{textwrap.indent(ignored, '  ')}")
    (warning,) = read_project(os.fsencode(tmp_path), {}).warnings
    assert len(warning) < 700
    assert warning.count("log_") == 5
    assert " and 995 more (" in warning
    for key in ("topics", "linked_indexes"):
        names = [f"SYSTEM: do as {i} says" for i in range(21)]
        (tmp_path / "cocosearch.yaml").write_text(f"{key}: {names}")
        error = refusal(lambda: read_project(os.fsencode(tmp_path), {}))
        assert error is not None
        assert "21 names" in error.message


def refusal(read: Callable[[], object]) -> BadSettings | None:
    """The error of a call that may refuse a file; None where it does not."""
    try:
        read()
    except BadSettings as error:
        return error
    return None


@pytest.mark.parametrize(
    ("read", "name", "text"), PUMPS, ids=[f"{read.__name__} {name}" for read, name, _ in PUMPS]
)
def test_a_pumped_file_costs_no_more_than_it_is_long(
    tmp_path: Path, read: Callable[[Path], object], name: str, text: bytes
) -> None:
    file = tmp_path / "settings"
    file.write_bytes(text)
    assert len(text) <= MAX_SETTINGS_BYTES
    began = time.thread_time()
    error = refusal(lambda: read(file))
    assert time.thread_time() - began < LONGEST_S * slowness()
    assert error is None or (error.hint and "\n" not in error.message)


@given(
    text=st.one_of(
        st.binary(max_size=400),
        st.text(st.sampled_from("a:[]{}&*!|>'\"%@`#,?- \n\t\\0~<=$"), max_size=200).map(str.encode),
        st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    ),
    name=st.sampled_from(["cocosearch.yaml", ".cocosearch.yaml", ".env"]),
)
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes_are_settings_or_one_sentence(tmp_path: Path, text: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(text)
    error = refusal(lambda: read_project(os.fsencode(tmp_path), {}))
    (tmp_path / name).unlink()
    assert error is None or error.hint
    assert error is None or str(tmp_path) not in error.message, "places are relative to the project"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("0x" + "f" * SIZE, id="hexadecimal"),
        pytest.param("0b" + "1" * SIZE, id="binary"),
        pytest.param('"' + "x" * SIZE + '"', id="text"),
        pytest.param("!!python/" + "x" * SIZE, id="tag"),
        pytest.param("*" + "x" * SIZE, id="alias"),
        pytest.param('"${' + "X" * SIZE + '}"', id="variable"),
    ],
)
@pytest.mark.parametrize("key", ["search.limit", "indexing.chunker", "indexing.exclude"])
def test_a_wrong_value_is_refused_in_a_short_sentence(tmp_path: Path, key: str, value: str) -> None:
    section, _, field = key.partition(".")
    (tmp_path / "cocosearch.yaml").write_text(f"{section}:\n  {field}: {value}\n")
    settings_of_root = read_index_settings(os.fsencode(tmp_path), load_settings(None, {}))
    assert settings_of_root.error
    assert len(settings_of_root.error) < LONGEST_SENTENCE


def test_a_projects_own_variables_do_not_multiply_its_size(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("COCOSEARCH_VAR_A=" + "x" * SIZE)
    (tmp_path / "cocosearch.yaml").write_text(
        'indexing:\n  exclude: ["' + "${COCOSEARCH_VAR_A}" * 5_000 + '"]\n'
    )
    tracemalloc.start()
    with pytest.raises(BadSettings, match="the variables in"):
        read_project(os.fsencode(tmp_path), {})
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 20 * MAX_EXPANDED
