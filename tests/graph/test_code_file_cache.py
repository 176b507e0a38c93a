"""The caches of files: bounded, and never of another generation."""

import gc
import tracemalloc
import weakref
from collections.abc import Sequence

import pytest

from cocosearchd.graph.code_file_cache import CodeFileCache, estimate_bytes
from cocosearchd.graph.code_files import CodeFile, DefinitionKey
from cocosearchd.graph.code_files_view import CodeFilesView, FilesChanged, unpack_file
from cocosearchd.graph.name_table import NameTable
from cocosearchd.graph.resolution.file_names import mentions_of, names_of
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.languages.code_facts import NO_FACTS
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import parse
from cocosearchd.languages.references import fact_table
from cocosearchd.store.file_facts import StoredCode, StoredNames
from tests.graph.sources import parse_sources

SOURCE = "".join(
    f"def function_{n}(value_{n}: Client_{n}) -> Reply_{n % 9}:\n"
    f"    return client.session_{n % 50}.call_{n}(load_{n % 70}(value_{n}), value_{n}.name)\n\n\n"
    for n in range(300)
)


def file(path: str) -> CodeFile:
    return CodeFile(path, "python", (), NO_FACTS)


def test_a_file_is_returned_for_its_generation_only() -> None:
    cache = CodeFileCache()
    first, second = file("a.py"), file("a.py")
    cache.put(first, 1)
    assert cache.get("a.py", 1) is first
    assert cache.get("a.py", 2) is None
    assert cache.get("b.py", 1) is None
    cache.put(second, 2)
    assert cache.get("a.py", 1) is None
    assert cache.get("a.py", 2) is second
    assert cache.nbytes == estimate_bytes(second)


def test_new_files_that_were_used_longest_ago_go_first() -> None:
    size = estimate_bytes(file("a"))
    cache = CodeFileCache(4 * size)
    for name in "abcd":
        cache.put(file(name), 1)
    assert cache.get("d", 1)  # used again: the last of the others gives way to it
    cache.put(file("e"), 1)
    assert [name in cache for name in "abcde"] == [False, True, True, True, True]
    assert cache.get("b", 1)
    cache.put(file("f"), 1)
    assert [name in cache for name in "bcdef"] == [True, True, True, False, True]
    assert cache.nbytes == 4 * size
    cache.clear()
    assert cache.nbytes == 0
    assert cache.get("b", 1) is None


def test_a_question_about_more_files_than_fit_finds_most_of_them_the_next_time() -> None:
    cache = CodeFileCache(40 * estimate_bytes(file("00")))
    for _ in range(2):
        hits = 0
        for number in range(100):
            name = f"{number:02}"
            if cache.get(name, 1) is None:
                cache.put(file(name), 1)
            else:
                hits += 1
    assert hits >= 29


def test_a_file_larger_than_the_cache_is_not_kept() -> None:
    cache = CodeFileCache(1)
    cache.put(file("a.py"), 1)
    assert cache.nbytes == 0


def test_the_estimate_is_near_the_memory_of_a_real_file() -> None:
    parsed = parse("a.py", SOURCE.encode(), language="python")
    code = pack_code(parsed.symbols, fact_table.pack(parsed.facts))
    row = StoredCode("a.py", 1, "python", code.symbols or b"", code.facts or b"")
    arrange_names(unpack_file(row))  # what is loaded once is not of the file
    gc.collect()
    tracemalloc.start()
    unpacked = unpack_file(row)
    arrange_names(unpacked)
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(unpacked.facts.uses) > 1000
    assert 0.5 < estimate_bytes(unpacked) / used < 2


def arrange_names(code_file: CodeFile) -> None:
    """Look up a name in all parts of the names of a file."""
    names = names_of(code_file)
    names.named("a"), names.bindings(0, "a"), names.bases(0)
    assert not names.wildcards
    assert not list(mentions_of(code_file).find(["a"]))


def test_values_of_a_file_are_made_once_and_go_with_it() -> None:
    cache = CodeFileCache(2 * estimate_bytes(file("a.py")))
    first = file("a.py")
    cache.put(first, 1)
    names = names_of(first)
    assert names_of(first) is names
    cache.put(file("a.py"), 2)
    stored = cache.get("a.py", 2)
    assert stored is not None
    assert names_of(stored) is not names
    # what refers to a file that is gone would keep it until the next full collection
    reference = weakref.ref(names)
    del names, first
    assert reference() is None


def test_values_that_are_made_after_a_file_left_the_cache_go_with_it() -> None:
    cache = CodeFileCache(max_bytes=1)
    evicted = file("a.py")
    cache.put(evicted, 1)
    values: list[object] = [names_of(evicted), mentions_of(evicted)]
    references = list(map(weakref.ref, values))
    gc.disable()
    del evicted, values
    gone = [reference() is None for reference in references]
    gc.enable()
    assert all(gone)


def test_what_a_question_has_looked_up_goes_with_it() -> None:
    files = parse_sources({"a.py": "def run(): ...\nrun()\n", "b.py": "import a\na.run()\n"})
    resolver = Resolver(files)
    assert len(list(resolver.uses_of(DefinitionKey("a.py", 0)))) == 2
    reference = weakref.ref(resolver)
    gc.disable()
    del resolver
    is_gone = reference() is None
    gc.enable()
    assert is_gone


class CountedReads:
    """Stored files, with the paths of each read."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.rows = {path: StoredCode(path, 1, "python", b"", b"") for path in paths}
        self.reads = list[list[str]]()

    def __call__(self, paths: Sequence[str]) -> Sequence[StoredCode]:
        self.reads.append(list(paths))
        return [self.rows[path] for path in paths if path in self.rows]

    def view(self, cache: CodeFileCache) -> CodeFilesView:
        """Return the files as they are stored now."""
        names = [StoredNames(row.path, row.generation, b"") for row in self.rows.values()]
        return CodeFilesView(NameTable().replace((), names), self, cache)


def test_files_that_no_longer_fit_are_unpacked_again_and_not_read() -> None:
    stored = CountedReads(["a.py", "b/c.py", "b/d.py"])
    cache = CodeFileCache(max_bytes=1)
    for _ in range(3):
        assert stored.view(cache).load(["a.py"]).keys() == {"a.py"}
    assert stored.reads == [["a.py"]]
    stored.rows["a.py"] = replace_generation(stored.rows["a.py"], 2)
    assert stored.view(cache).load(["a.py"]).keys() == {"a.py"}
    assert stored.reads == [["a.py"], ["a.py"]]


def test_a_read_for_one_file_reads_its_directory() -> None:
    stored = CountedReads(["a.py", "b/c.py", "b/d.py", "b/e/f.py"])
    cache = CodeFileCache()
    view = stored.view(cache)
    view.load(["b/d.py"])
    view.load(["b/c.py"])
    view.load(["b/c.py", "a.py"])
    assert stored.reads == [["b/d.py", "b/c.py"], ["a.py"]]
    many = CountedReads([f"x/{number}.py" for number in range(500)])
    many.view(CodeFileCache()).load(["x/1.py"])
    assert [len(paths) for paths in many.reads] == [64]
    many.view(CodeFileCache()).load(list(many.rows))
    assert len(many.reads[1]) == 500, "many files are read as they are asked for"


def test_a_file_that_changed_while_it_was_read_ahead_is_read_again() -> None:
    stored = CountedReads(["a.py", "b.py"])
    cache = CodeFileCache()
    view = stored.view(cache)
    stored.rows["b.py"] = replace_generation(stored.rows["b.py"], 2)
    assert view.load(["a.py"]).keys() == {"a.py"}
    with pytest.raises(FilesChanged, match=r"b\.py"):
        view.load(["b.py"])
    assert stored.view(cache).load(["b.py"]).keys() == {"b.py"}


def replace_generation(row: StoredCode, generation: int) -> StoredCode:
    return row._replace(generation=generation)
