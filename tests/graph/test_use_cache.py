"""Resolved uses that questions of one moment share: bounded, complete by file, and equal to new ones."""

from collections.abc import Iterable, Mapping, Set

import pytest

from benchmarks.graph.parsed_files import parse_texts
from cocosearchd.graph.code_files import CodeFile, CodeFiles, DefinitionKey, Resolution
from cocosearchd.graph.questions.impact import ImpactBounds, find_impact
from cocosearchd.graph.questions.question_limits import LimitReached, TimedFiles
from cocosearchd.graph.questions.reference_pages import ReferenceQuery, find_references
from cocosearchd.graph.resolution.resolver import MeaningResolver, Resolver
from cocosearchd.graph.resolution.use_search import UseSearch
from cocosearchd.graph.use_cache import (
    MAX_CHANGED,
    AliasCache,
    ImportAlias,
    NameUses,
    OutdatedFiles,
    UseCache,
    UsedNames,
    UseMeaning,
)
from cocosearchd.languages.code_facts import Use
from tests.graph.memory_files import code_file

NAMES = UsedNames(frozenset({"run"}), needs_receiver=True)
SOURCES = {
    "a.py": "class A:\n    def run(self): ...\n\n    def go(self):\n        self.run()\n",
    "b.py": "class B:\n    def run(self): ...\n",
    "c.py": "from a import A\n\ndef first(b):\n    A().run()\n    b.run()\n",
    "d.py": "from b import B\n\ndef second():\n    B().run()\n",
}
A_RUN, B_RUN = DefinitionKey("a.py", 1), DefinitionKey("b.py", 1)


class LoadedPaths(TimedFiles):
    """Files that note which of them were loaded."""

    def __init__(self, files: CodeFiles) -> None:
        super().__init__(files, lambda: False)
        self.loaded = set[str]()

    def load(self, paths: Iterable[str]) -> Mapping[str, CodeFile]:
        requested = list(paths)
        self.loaded.update(requested)
        return super().load(requested)


def meaning(line: int, *definitions: DefinitionKey) -> UseMeaning:
    use = Use("call", "run", "", False, line, 1, -1)
    return UseMeaning(line - 1, use, Resolution(definitions, "certain", "import"))


def answers(files: CodeFiles, cache: UseCache, key: DefinitionKey) -> tuple[object, object]:
    """Return the references and the impact of a definition, by two questions."""
    page = find_references(files, Resolver(files, cache), [key], ReferenceQuery(), lambda: False)
    bounds = ImpactBounds(3, "possible", lambda: False)
    return page, find_impact(files, Resolver(files, cache), [key], bounds)


def test_uses_of_a_file_are_found_by_what_they_may_mean_in_order() -> None:
    uses = NameUses()
    meanings = [meaning(1, A_RUN), meaning(2), meaning(3, A_RUN, B_RUN), meaning(4, B_RUN)]
    file = code_file("c.py", [], [item.use for item in meanings])
    uses.add("c.py", meanings)
    uses.add("d.py", [])
    assert list(uses.find(file, {A_RUN})) == [meanings[0], meanings[2]]
    assert list(uses.find(file, {A_RUN, B_RUN})) == [meanings[0], *meanings[2:]]
    assert not uses.find(file, {DefinitionKey("a.py", 3)})
    assert uses.using_paths({B_RUN}) == {"c.py"}
    assert uses.may_use("c.py", {B_RUN})
    assert not uses.may_use("c.py", {DefinitionKey("a.py", 3)})
    assert "d.py" in uses
    assert not uses.may_use("d.py", {A_RUN})
    assert not uses.find(code_file("d.py", [], []), {A_RUN})


def test_a_file_is_added_once() -> None:
    uses = NameUses()
    empty_bytes = uses.nbytes
    assert uses.add("c.py", [meaning(1, A_RUN)]) == uses.nbytes - empty_bytes > 0
    assert uses.add("c.py", [meaning(1, A_RUN)]) == 0
    assert len(uses.find(code_file("c.py", [], [meaning(1).use]), {A_RUN})) == 1


def test_names_that_were_asked_for_long_ago_are_dropped() -> None:
    cache = UseCache(max_bytes=10_000)
    for number in range(100):
        names = UsedNames(frozenset({f"name{number}"}))
        cache.add(names, cache.of_names(names), "a.py", [meaning(1, A_RUN)])
        assert cache.nbytes <= 10_000
    assert "a.py" in cache.of_names(UsedNames(frozenset({"name99"})))
    assert "a.py" not in cache.of_names(UsedNames(frozenset({"name0"})))


def test_names_without_uses_count_as_well() -> None:
    cache = UseCache(max_bytes=10_000)
    for number in range(100):
        cache.of_names(UsedNames(frozenset({f"name{number}", "other"})))
    assert 5_000 < cache.nbytes <= 10_000
    assert len(cache._uses) < 20


class RacedUses(NameUses):
    """Uses to which another question adds a file, just after its users were read."""

    def using_paths(self, definitions: Set[DefinitionKey]) -> Set[str]:
        users = super().using_paths(definitions)
        self.add("c.py", [meaning(1, A_RUN)])
        return users


def test_a_file_that_another_question_adds_meanwhile_is_read() -> None:
    files, cache = parse_texts(SOURCES, {"python"}), UseCache()
    cache._uses[NAMES] = RacedUses()
    users = [use.file.path for use in Resolver(files, cache).uses_of(A_RUN)]
    assert users == ["a.py", "c.py"]


def test_a_question_keeps_uses_that_the_cache_has_dropped() -> None:
    cache = UseCache(max_bytes=0)
    uses = cache.of_names(NAMES)
    cache.add(NAMES, uses, "a.py", [meaning(1, A_RUN)])
    cache.add(NAMES, uses, "b.py", [meaning(1, A_RUN)])
    assert uses.using_paths({A_RUN}) == {"a.py", "b.py"}
    assert cache.nbytes == 0


def test_a_cleared_cache_is_empty() -> None:
    cache = UseCache()
    cache.add(NAMES, cache.of_names(NAMES), "a.py", [meaning(1, A_RUN)])
    cache.clear()
    assert cache.nbytes == 0
    assert "a.py" not in cache.of_names(NAMES)


def test_aliases_that_were_asked_for_long_ago_are_dropped() -> None:
    cache = AliasCache(max_bytes=5_000)
    aliases = (ImportAlias("go", (A_RUN,)),)
    for number in range(100):
        cache.put(f"name{number}", aliases if number % 2 else (), is_own=True)
        assert cache.get("name0", is_own=True) == (), "a name that is asked for stays"
        assert cache.nbytes <= 5_000
    assert cache.get("name99", is_own=True) == aliases
    assert cache.get("name99", is_own=False) is None
    assert cache.get("name1", is_own=True) is None
    cache.put("name99", (), is_own=True)
    assert cache.get("name99", is_own=True) == aliases, "another question was faster"
    cache.clear()
    assert cache.nbytes == 0
    assert cache.get("name99", is_own=True) is None


def test_files_are_not_read_again_to_learn_that_no_import_gives_an_alias() -> None:
    sources = {
        "a.py": "def run(): ...\n",
        "b.py": "from a import run as go\ngo()\n",
        "c.py": "from other import run\n",
        "d.py": "from a import run\n",
    }
    parsed, cache = parse_texts(sources, {"python"}), UseCache()
    key = DefinitionKey("a.py", 0)
    for loaded in ({"a.py", "b.py", "c.py", "d.py"}, {"a.py", "b.py"}):
        files = LoadedPaths(parsed)
        uses = [(use.file.path, use.use.name) for use in Resolver(files, cache).uses_of(key)]
        assert uses == [("b.py", "go")]
        assert files.loaded == loaded


def test_aliases_that_were_searched_after_the_time_was_over_are_not_shared() -> None:
    over = list[bool]()
    sources = {"a.py": "def run(): ...\n", "b.py": "from a import run as go\ngo()\n"}
    files = TimedFiles(parse_texts(sources, {"python"}), lambda: bool(over))
    cache = UseCache()
    resolver = Resolver(files, cache)
    files.load(["a.py", "b.py"])
    over.append(True)
    with pytest.raises(LimitReached):
        list(resolver.uses_of(DefinitionKey("a.py", 0)))
    assert cache.aliases.nbytes == 0


def test_answers_with_the_uses_of_earlier_questions_are_those_without() -> None:
    files = parse_texts(SOURCES, {"python"})
    cache = UseCache()
    for key in (A_RUN, B_RUN, A_RUN, DefinitionKey("a.py", 0)):
        assert answers(files, cache, key) == answers(files, UseCache(), key)


def test_a_file_without_uses_of_a_definition_is_not_read_again() -> None:
    parsed, cache = parse_texts(SOURCES, {"python"}), UseCache()
    answers(parsed, cache, A_RUN)
    files = LoadedPaths(parsed)
    page = find_references(files, Resolver(files, cache), [A_RUN], ReferenceQuery(), lambda: False)
    assert [item.location.path for item in page.references] == ["a.py", "c.py", "c.py"]
    assert page.unread_files == 0
    assert files.loaded == {"a.py", "c.py"}


def test_uses_that_were_resolved_after_the_time_was_over_are_not_shared() -> None:
    """Look-ups that the end of the time has cut off leave guesses behind."""
    over = list[bool]()
    files = TimedFiles(parse_texts(SOURCES, {"python"}), lambda: bool(over))
    cache = UseCache()
    resolver = Resolver(files, cache)
    file = files.load(["c.py"])["c.py"]
    assert list(resolver.mentioning_paths(A_RUN)) == ["a.py", "c.py", "d.py"]
    over.append(True)
    with pytest.raises(LimitReached):
        list(resolver.uses_in(A_RUN, file))
    assert "c.py" not in cache.of_names(NAMES)


def test_a_question_about_an_earlier_moment_shares_nothing_new() -> None:
    """It goes on with its own files while a save is followed by other questions."""
    earlier = UseCache()
    uses = earlier.of_names(NAMES)
    earlier.add(NAMES, uses, "a.py", [meaning(1, A_RUN)])
    earlier.add(NAMES, uses, "b.py", [meaning(2, A_RUN)])
    later = earlier.succeed(OutdatedFiles(same=["a.py"]))
    assert later is not None
    assert earlier.add(NAMES, uses, "c.py", [meaning(3, A_RUN)]) > 0
    assert earlier.of_names(NAMES).using_paths({A_RUN}) == {"a.py", "b.py", "c.py"}
    assert earlier.of_names(UsedNames(frozenset({"other"}))).nbytes
    assert later.of_names(NAMES).using_paths({A_RUN}) == {"b.py"}
    assert later.nbytes == later.of_names(NAMES).nbytes
    later.add(NAMES, later.of_names(NAMES), "a.py", [meaning(4, B_RUN)])
    assert later.of_names(NAMES).using_paths({B_RUN}) == {"a.py"}
    assert not earlier.of_names(NAMES).using_paths({B_RUN})


def test_a_question_about_an_earlier_moment_resolves_each_use_once() -> None:
    files, cache = parse_texts(SOURCES, {"python"}), UseCache()
    resolver = CountedResolutions(files, "c.py")
    search = UseSearch(files, resolver, cache)
    list(search.uses_in(A_RUN, files.load(["a.py"])["a.py"]))
    assert cache.succeed(OutdatedFiles(same=["b.py"])) is not None
    for _ in range(2):
        users = [(item.file.path, item.use.line) for item in search.uses_of(A_RUN)]
        assert users == [("a.py", 5), ("c.py", 4), ("c.py", 5)]
        assert resolver.lines == [4, 5]


def test_uses_that_nobody_asks_for_are_dropped_after_many_changes() -> None:
    cache = UseCache()
    cache.add(NAMES, cache.of_names(NAMES), "a.py", [meaning(1, A_RUN)])
    for number in range(MAX_CHANGED + 1):
        assert cache.nbytes
        successor = cache.succeed(OutdatedFiles(same=[f"{number}.py"]))
        assert successor is not None
        cache = successor
    assert cache.nbytes == 0


class CountedResolutions(MeaningResolver):
    """Notes the lines of the uses that are resolved in one file."""

    def __init__(self, files: CodeFiles, path: str) -> None:
        super().__init__(files)
        self._path = path
        self.lines = list[int]()

    def resolve(self, file: CodeFile, use: Use) -> Resolution:
        if file.path == self._path:
            self.lines.append(use.line)
        return super().resolve(file, use)


def test_uses_without_a_receiver_are_not_resolved_to_find_those_of_a_method() -> None:
    """Only the body of its class sees a method; elsewhere such a name is a function or foreign."""
    sources = {
        "a.py": "class A:\n    def run(self): ...\n    go = run\n    run()\n\ndef f():\n    run()\n",
        "user.py": "from a import A\nfrom b import run\nrun()\nA().run()\nrun()\n",
        "b.py": "def run(): ...\n",
    }
    files = parse_texts(sources, {"python"})
    resolver = CountedResolutions(files, "user.py")
    search = UseSearch(files, resolver, UseCache())
    places = [(item.file.path, item.use.line) for item in search.uses_of(A_RUN)]
    assert places == [("a.py", 3), ("a.py", 4), ("user.py", 4)]
    assert resolver.lines == [4]
    places = [(item.file.path, item.use.line) for item in search.uses_of(DefinitionKey("b.py", 0))]
    assert places == [("user.py", 3), ("user.py", 5)]


def test_a_file_that_decides_shared_aliases_at_an_earlier_moment_is_noted_for_the_later_one() -> (
    None
):
    """Its next change may give the aliases other meanings."""
    files, earlier = parse_texts(SOURCES, {"python"}), UseCache()
    later = earlier.succeed(OutdatedFiles(same=["a.py"]))
    assert later is not None
    earlier.note_loaded(files.load(["d.py"]).values())
    earlier.aliases.put("run", (ImportAlias("go", (A_RUN,)),), is_own=True)
    assert later.aliases.get("run", is_own=True)
    assert later.succeed(OutdatedFiles(same=[], unread=["d.py"])) is None


def test_aliases_that_are_added_while_they_are_copied_are_not_handed_over_unchecked() -> None:
    """Another question notes a file, and adds an alias that it decided, at any time."""
    files, cache = parse_texts(SOURCES, {"python"}), UseCache()

    class QuestionInBetween(AliasCache):
        def copy_without(self, hashes: Set[int]) -> AliasCache:
            cache.note_loaded(files.load(["d.py"]).values())
            self.put("run", (ImportAlias("go", (A_RUN,)),), is_own=True)
            return super().copy_without(hashes)

    cache.aliases = QuestionInBetween()
    assert cache.succeed(OutdatedFiles(same=[], unread=["d.py"])) is None
