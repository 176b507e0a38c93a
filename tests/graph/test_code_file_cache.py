"""The cache of unpacked files: bounded, and never of another generation."""

import gc
import tracemalloc
import weakref

from cocosearchd.graph.code_file_cache import CodeFileCache, estimate_bytes
from cocosearchd.graph.code_files import CodeFile
from cocosearchd.graph.code_files_view import unpack_file
from cocosearchd.graph.resolution.file_names import mentions_of, names_of
from cocosearchd.languages.code_facts import NO_FACTS
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import parse
from cocosearchd.languages.references import fact_table
from cocosearchd.store.file_facts import StoredCode

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


def test_the_files_used_longest_ago_go_first() -> None:
    size = estimate_bytes(file("a.py"))
    cache = CodeFileCache(3 * size)
    for name in ("a", "b", "c"):
        cache.put(file(name), 1)
    assert cache.get("a", 1)
    cache.put(file("d"), 1)
    assert [bool(cache.get(name, 1)) for name in "abcd"] == [True, False, True, True]
    assert cache.nbytes == 3 * size
    cache.clear()
    assert cache.nbytes == 0
    assert cache.get("a", 1) is None


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
    names.named("a"), names.attributes("a"), names.bindings(0, "a"), names.bases(0)
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
