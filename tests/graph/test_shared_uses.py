"""Impact with all caches of a moment, against a plain search that resolves every use anew."""

from collections.abc import Iterator, Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.graph.parsed_files import ParsedFiles
from cocosearchd.graph.code_files import DefinitionKey, ResolvedUse
from cocosearchd.graph.questions.impact import Impact, ImpactBounds, find_impact
from cocosearchd.graph.resolution.file_names import names_of
from cocosearchd.graph.resolution.resolver import MeaningResolver, Resolver
from cocosearchd.graph.use_cache import UseCache
from tests.graph.sources import parse_sources

BOUNDS = ImpactBounds(3, "possible", lambda: False)
number = st.integers(0, 2)
imports = st.one_of(
    st.builds("from m{} import f{}\n".format, number, number),
    st.builds("from m{} import f{} as g{}\n".format, number, number, number),
    st.builds("from m{} import C{}\n".format, number, number),
    st.builds("from m{} import *\n".format, number),
    st.builds("import m{}\n".format, number),
)
calls = st.one_of(
    st.builds("f{}()".format, number),
    st.builds("g{}()".format, number),
    st.builds("m{}.f{}()".format, number, number),
    st.builds("C{}().f{}()".format, number, number),
    st.builds("x.f{}()".format, number),
)
functions = st.builds("def f{}(x):\n    {}\n    {}\n".format, number, calls, calls)
classes = st.builds(
    "class C{}({}):\n    def f{}(self, x):\n        self.f{}()\n        {}\n".format,
    number,
    st.sampled_from(["", "C0", "C1", "m2.C2"]),
    number,
    number,
    calls,
)
parts = st.tuples(
    st.lists(imports, max_size=3),
    st.lists(st.one_of(functions, classes), max_size=4),
    st.lists(calls.map("{}\n".format), max_size=2),
)
modules = parts.map(lambda part: "".join("".join(texts) for texts in part))
projects = st.fixed_dictionaries({f"m{name}.py": modules for name in range(3)})


class PlainUses:
    """The uses of a definition: every use of every file is resolved by a resolver of its own."""

    def __init__(self, files: ParsedFiles) -> None:
        self._files = files

    def uses_of(self, definition: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the uses of a definition and of its overloads; none through base classes."""
        file = self._files.load([definition.path])[definition.path]
        meanings = {
            DefinitionKey(definition.path, position)
            for position in names_of(file).same_definition(definition.position)
        }
        for path in self._files.paths():
            file = self._files.load([path])[path]
            for use in file.facts.uses:
                resolution = MeaningResolver(self._files).resolve(file, use)
                if not meanings.isdisjoint(resolution.definitions):
                    yield ResolvedUse(file, use, resolution)

    def overriders_of(self, key: DefinitionKey) -> Iterator[DefinitionKey]:
        """Yield the members that override a member, found without the uses of other questions."""
        return Resolver(self._files).overriders_of(key)


class DirectUses(Resolver):
    """The resolver of questions, without the uses through base classes."""

    def uses_of(self, definition: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the uses that mean a definition itself."""
        uses = super().uses_of(definition)
        return (use for use in uses if use.resolution.reason != "through_base")


def definitions(files: ParsedFiles) -> Sequence[DefinitionKey]:
    """Return all definitions, the last first: a question finds uses that it did not ask for."""
    return [
        DefinitionKey(path, position)
        for path, file in files.load(files.paths()).items()
        for position in reversed(range(len(file.symbols)))
    ]


@settings(max_examples=60, deadline=None)
@given(projects)
def test_the_impact_with_shared_uses_is_that_of_a_plain_search(texts: Mapping[str, str]) -> None:
    files, cache = parse_sources(texts), UseCache()

    def ask(key: DefinitionKey) -> Impact:
        return find_impact(files, DirectUses(files, cache), [key], BOUNDS)

    keys = definitions(files)
    plain = {key: find_impact(files, PlainUses(files), [key], BOUNDS) for key in keys}
    for key in (*keys, *keys):
        assert ask(key) == plain[key]
