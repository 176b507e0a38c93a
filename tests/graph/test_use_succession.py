"""Resolved uses that outlive a save: answers equal those of a graph that is built afresh."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.graph.code_file_cache import CodeFileCache
from cocosearchd.graph.code_files import DefinitionKey
from cocosearchd.graph.code_files_view import CodeFilesView
from cocosearchd.graph.name_table import NameTable
from cocosearchd.graph.questions.impact import Impact, ImpactBounds, find_impact
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.graph.use_cache import UseCache
from cocosearchd.graph.use_succession import TableChange, find_successor
from cocosearchd.languages import detect
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import parse
from cocosearchd.languages.references import fact_table
from cocosearchd.store.file_facts import StoredCode, StoredNames
from tests.graph.test_shared_uses import calls, number, projects

BOUNDS = ImpactBounds(3, "possible", lambda: False)
A = "def run():\n    pass\n\ndef stop(x):\n    x.close()\n\nclass A: ...\nclass B(A): ...\n"
B = "from a import run\n\ndef go():\n    run()\n"
C = "import other\n\ndef far():\n    other.run()\n"


@dataclass
class Saves:
    """The packed files of a project, followed from save to save."""

    generation: int = 1
    rows: dict[str, StoredCode] = field(default_factory=dict)
    table: NameTable = field(default_factory=NameTable)
    uses: UseCache = field(default_factory=UseCache)
    files: CodeFileCache = field(default_factory=CodeFileCache)

    def save(self, texts: Mapping[str, str]) -> bool:
        """Store files, and return True if resolved uses are kept."""
        self.generation += 1
        earlier_rows, earlier = dict(self.rows), self.table
        names = [self._store(path, text) for path, text in texts.items()]
        self.table = earlier.replace(list(texts), names)
        loaded = self.uses.loaded_paths.intersection(texts)
        successor = find_successor(
            self.uses,
            TableChange(earlier, self.table, list(texts)),
            {path: row for path, row in earlier_rows.items() if path in loaded},
            {path: self.rows[path] for path in loaded},
        )
        self.uses = UseCache() if successor is None else successor
        return successor is not None

    def _store(self, path: str, text: str) -> StoredNames:
        data = text.encode()
        parsed = parse(path, data, language=detect.detect(path, data))
        code = pack_code(parsed.symbols, fact_table.pack_columns(parsed.fact_columns))
        self.rows[path] = StoredCode(
            path, self.generation, parsed.language, code.symbols or b"", code.facts or b""
        )
        return StoredNames(path, self.generation, code.name_hashes or b"")

    def view(self, uses: UseCache) -> CodeFilesView:
        """Return the files as a question sees them."""
        return CodeFilesView(self.table, self._read, self.files, uses=uses)

    def _read(self, paths: Sequence[str]) -> Sequence[StoredCode]:
        return [self.rows[path] for path in paths if path in self.rows]

    def impact(self, key: DefinitionKey, uses: UseCache) -> Impact:
        """Ask a question with the resolved uses of earlier ones."""
        files = self.view(uses)
        return find_impact(files, Resolver(files, uses), [key], BOUNDS)

    def check(self) -> None:
        """Compare the impact of all definitions with that of a graph without resolved uses."""
        files = self.view(UseCache()).load(self.rows)
        for path, file in files.items():
            for position in range(len(file.symbols)):
                key = DefinitionKey(path, position)
                assert self.impact(key, self.uses) == self.impact(key, UseCache())


# Edits of a line of a file: a new line before it, or in place of it.
new_lines = st.one_of(
    st.just("# a comment"),
    st.just(""),
    calls.map("{}".format),
    calls.map("    {}".format),
    calls.map("        {}".format),
    st.builds("    x = C{}()".format, number),
    st.builds("        self.a = C{}()".format, number),
    st.builds("from m{} import f{} as g{}".format, number, number, number),
    st.builds("def f{}(x: C{}): pass".format, number, number),
)
edits = st.tuples(st.integers(0, 2), st.integers(0, 12), st.booleans(), new_lines)


def edit(text: str, line: int, new_line: str, *, replaces: bool) -> str:
    lines = text.splitlines()
    lines[line : line + replaces] = [new_line]
    return "".join(f"{item}\n" for item in lines)


@settings(max_examples=12, deadline=None)
@given(projects, st.lists(edits, min_size=1, max_size=3), st.booleans())
def test_answers_after_saves_are_those_of_a_graph_built_afresh(
    texts: dict[str, str], changes: Sequence[tuple[int, int, bool, str]], asks_first: bool
) -> None:
    saves = Saves()
    saves.save(texts)
    if asks_first:
        saves.check()
    for name, line, replaces, new_line in changes:
        path = f"m{name}.py"
        texts = {**texts, path: edit(texts[path], line, new_line, replaces=replaces)}
        saves.save({path: texts[path]})
        saves.check()


def begin() -> Saves:
    saves = Saves()
    saves.save({"a.py": A, "b.py": B, "c.py": C})
    saves.impact(DefinitionKey("a.py", 0), saves.uses)
    return saves


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "# moved\n" + A),
        ("a.py", A + "\nprint('new')\n"),
        ("b.py", B + "    run()\n"),
        ("b.py", B.replace("run()\n", "print(run)\n")),
        ("c.py", "import more\n\ndef far():\n    x = more.run()\n"),
    ],
)
def test_uses_outlive_a_save_that_no_other_file_sees(path: str, text: str) -> None:
    saves = begin()
    assert saves.uses.loaded_paths == {"a.py", "b.py", "c.py"}
    saves.uses.loaded_paths.discard("c.py")  # as if no question had read it
    assert saves.save({path: text})
    assert saves.uses.nbytes
    saves.check()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "def first(): ...\n" + A),
        ("a.py", A.replace("stop(x)", "stop(x: C)")),
        ("a.py", A.replace("B(A)", "B")),
        ("a.py", A.replace("def run():\n    pass\n", "class run:\n    pass\n")),
        ("b.py", B.replace("import run", "import run as go")),
        ("b.py", B.replace("from a", "from c")),
        ("b.py", B + "    x = run()\n"),
        ("c.py", "def run(): ...\n"),
        ("d.py", ""),
    ],
)
def test_uses_do_not_outlive_a_save_that_other_files_may_see(path: str, text: str) -> None:
    saves = begin()
    assert not saves.save({path: text})
    saves.check()


def test_uses_do_not_outlive_a_new_name_of_a_package_that_nobody_has_read() -> None:
    saves = Saves()
    saves.save(
        {
            "app/main.ts": 'import { run } from "tool";\nexport function go() { run(); }\n',
            "packages/a/package.json": '{"name": "old"}\n',
            "packages/a/src/index.ts": "export function run() {}\n",
        }
    )
    saves.check()
    assert "packages/a/package.json" not in saves.uses.loaded_paths
    saves.save({"packages/a/package.json": '{"name": "tool"}\n'})
    saves.check()
    assert saves.impact(DefinitionKey("packages/a/src/index.ts", 0), saves.uses).affected
