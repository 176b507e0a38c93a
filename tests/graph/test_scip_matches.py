"""Meanings of uses in a SCIP index: taken where they fit the files, dropped when files change."""

from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.graph.parsed_files import ParsedFiles
from cocosearchd.errors import InvalidInput
from cocosearchd.graph.code_files import CodeFile, PreciseTarget
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.graph.scip import precise_uses, scip_matches
from cocosearchd.graph.scip.scip_matches import PreciseFile, ScipMatcher
from cocosearchd.graph.scip.scip_reader import UTF8, ScipDocument, read_index
from tests.graph.scip_encoder import document, message, number
from tests.graph.sources import parse_source

FILE = "class File:\n    def close(self):\n        pass\n"
DOOR = "class Door:\n    def close(self):\n        pass\n"
RUN = "def run(run):\n    run.close()\n    close = 1\n    return close\n"
CLOSE = "hand . p . file/File#close()."
NAMES = {
    "file.py": [("File", "=hand . p . file/File#"), ("close", f"={CLOSE}")],
    "door.py": [("Door", "=hand . p . door/Door#"), ("close", "=hand . p . door/Door#close().")],
    "run.py": [
        *(("run", "=hand . p . run/run()."), ("run", "=hand . p . run/run().(run)")),
        *(("run", "hand . p . run/run().(run)"), ("close", CLOSE)),
    ],
}
TEXTS = {"file.py": FILE, "door.py": DOOR, "run.py": RUN}


def parse_file(path: str, text: str) -> CodeFile:
    return replace(parse_source(path, text), content_hash=text.encode())


def parse_files(texts: Mapping[str, str]) -> ParsedFiles:
    return ParsedFiles(parse_file(path, text) for path, text in texts.items())


def match(texts: Mapping[str, str], data: bytes) -> dict[str, PreciseFile]:
    """Return what is matched in each file."""
    matcher = ScipMatcher(parse_files(texts), lambda file: texts[file.path])
    for part in read_index(BytesIO(data)):
        assert isinstance(part, ScipDocument)
        matcher.add(part)
    return {file.path: file for file in matcher.finish()}


def encode(texts: Mapping[str, str]) -> bytes:
    return b"".join(document(path, texts[path], NAMES[path]) for path in NAMES)


def apply(texts: Mapping[str, str], matches: Mapping[str, PreciseFile]) -> ParsedFiles:
    """Return the files as they are after an import; one that changed has no precise uses."""
    files = []
    for path, text in texts.items():
        file = parse_file(path, text)
        item = matches.get(path)
        is_same = item is not None and item.content_hash == file.content_hash
        packed = precise_uses.pack(item.uses) if item is not None and is_same else b""
        files.append(replace(file, precise_uses=precise_uses.unpack(packed)))
    return ParsedFiles(files)


def meaning_of_close(files: ParsedFiles) -> tuple[str, str, list[str]]:
    file = files.load(["run.py"])["run.py"]
    (use,) = [use for use in file.facts.uses if use.name == "close" and use.kind == "call"]
    resolved = Resolver(files).resolve(file, use)
    return resolved.confidence, resolved.reason, [key.path for key in resolved.definitions]


def test_a_use_means_what_the_precise_index_says() -> None:
    assert meaning_of_close(parse_files(TEXTS)) == (
        *("possible", "name_only"),
        ["door.py", "file.py"],
    )
    files = apply(TEXTS, match(TEXTS, encode(TEXTS)))
    assert meaning_of_close(files) == ("certain", "precise_index", ["file.py"])


def test_a_parameter_with_the_name_of_its_function_is_no_definition() -> None:
    targets = match(TEXTS, encode(TEXTS))["run.py"].uses
    assert targets == {(2, 9): (PreciseTarget("file.py", FILE.encode(), "File.close", 2),)}
    defined = {target.name for targets in targets.values() for target in targets}
    assert "run" not in defined


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("run.py", "\n" + RUN, id="the use moved"),
        pytest.param("run.py", RUN.replace("close = 1", "close = 2"), id="another line changed"),
        pytest.param("file.py", FILE + "\n", id="the file of the definition changed"),
    ],
)
def test_a_change_of_either_file_ends_what_the_index_says(path: str, text: str) -> None:
    files = apply({**TEXTS, path: text}, match(TEXTS, encode(TEXTS)))
    assert meaning_of_close(files)[:2] == ("possible", "name_only")


def test_a_deleted_file_of_the_definition_ends_what_the_index_says() -> None:
    matches = match(TEXTS, encode(TEXTS))
    texts = {path: text for path, text in TEXTS.items() if path != "file.py"}
    assert meaning_of_close(apply(texts, matches))[2] == ["door.py"]


def test_a_use_of_an_attribute_means_no_definition() -> None:
    run = "class Run:\n    def __init__(self, f):\n        self.close = f\n\ndef go(b):\n    b.close()\n"
    texts = {**TEXTS, "run.py": run}
    symbol = "hand . p . run/Run#close."
    data = document("run.py", run, [("close", f"={symbol}"), ("close", symbol)])
    assert meaning_of_close(parse_files(texts))[2] == ["door.py", "file.py"]
    files = apply(texts, match(texts, data))
    assert meaning_of_close(files) == ("certain", "precise_index", [])


def test_a_call_of_a_class_means_the_class_also_by_its_constructor() -> None:
    texts = {"a.py": "class A:\n    def __init__(self): pass\n", "b.py": "from a import A\nA()\n"}
    constructor = "scip-python python p 1 a/A#__init__()."
    data = document(
        "a.py",
        texts["a.py"],
        [("A", "=scip-python python p 2 a/A#"), ("__init__", f"={constructor}")],
    ) + document("b.py", texts["b.py"], [("A", "scip-python python p 3 a/A#"), ("A", constructor)])
    (targets,) = match(texts, data)["b.py"].uses.values()
    assert [target.name for target in targets] == ["A"]


def test_a_definition_with_another_name_is_not_believed() -> None:
    """scip-python names the first definition of a module for all names of it."""
    texts = {"a.py": "def run(): pass\n", "b.py": "from x import *\nother()\n"}
    symbol = "hand . p . a/run()."
    data = document("a.py", texts["a.py"], [("run", f"={symbol}")])
    assert (
        match(texts, data + document("b.py", texts["b.py"], [("other", symbol)]))["b.py"].uses == {}
    )
    aliased = {**texts, "b.py": "from a import run as other\nother()\n"}
    names = [("run", symbol), ("other", symbol), ("other", symbol)]
    matches = match(aliased, data + document("b.py", aliased["b.py"], names))
    assert [target.name for target in matches["b.py"].uses[2, 1]] == ["run"]


@pytest.mark.parametrize("fields", [(), (number(6, UTF8),)])
def test_columns_are_characters_in_each_encoding(fields: tuple[bytes, ...]) -> None:
    texts = {"a.py": "def run(): pass\n", "b.py": "from a import run\nx = '\U0001f600é'; run()\n"}
    symbol = "hand . p . a/run()."
    line = texts["b.py"].split("\n")[1]
    lead = line[: line.index("run")]
    # a document as indexers with JavaScript write it, and one in bytes
    column = len(lead.encode()) if fields else len(lead.encode("utf-16-le")) // 2
    shifted = f"from a import run\n{'-' * column}run()\n"
    data = document("a.py", texts["a.py"], [("run", f"={symbol}")])
    names = [("run", symbol), ("run", symbol)]
    assert (2, len(lead) + 1) in match(texts, data + document("b.py", shifted, names, *fields))[
        "b.py"
    ].uses


def test_documents_that_do_not_fit_are_counted() -> None:
    texts = {"a.py": "def run(): pass\nrun()\n", "b.py": "x()\n"}
    matcher = ScipMatcher(
        parse_files(texts), lambda file: None if file.path == "b.py" else texts[file.path]
    )
    symbol = "hand . p . a/run()."
    for path, *fields in (
        *(("a.py",), ("b.py",), ("../c.py",)),
        ("a.py", message(5, "def run(): return 1\n")),
    ):
        names = [("run", f"={symbol}"), ("run", symbol)]
        data = document(str(path), texts["a.py"], names, *fields)
        (part,) = read_index(BytesIO(data))
        assert isinstance(part, ScipDocument)
        matcher.add(part)
    assert matcher.skipped == {"changed": 2, "not_indexed": 1}
    assert [file.path for file in matcher.finish()] == ["a.py"]


def test_too_many_definitions_or_uses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scip_matches, "MAX_DEFINITIONS", 3)
    with pytest.raises(InvalidInput, match="more than 3 definitions"):
        match(TEXTS, encode(TEXTS))
    monkeypatch.setattr(scip_matches, "MAX_USES", 0)
    with pytest.raises(InvalidInput, match="more than 0 uses"):
        match({"run.py": RUN}, document("run.py", RUN, NAMES["run.py"]))


TARGETS = st.lists(
    st.builds(PreciseTarget, st.text(), st.binary(max_size=16), st.text(), st.integers(1, 9)),
    max_size=3,
).map(tuple)
PLACES = st.tuples(st.integers(1, 99_999), st.integers(1, 999))


@given(st.dictionaries(PLACES, TARGETS, max_size=5))
def test_packed_meanings_are_unpacked(
    uses: dict[tuple[int, int], tuple[PreciseTarget, ...]],
) -> None:
    assert (precise_uses.unpack(precise_uses.pack(uses)) or {}) == uses


@given(st.binary(max_size=100))
def test_other_bytes_have_no_meanings(data: bytes) -> None:
    assert precise_uses.unpack(data) is None
