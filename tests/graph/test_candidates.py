"""Candidates by name: the nearest files first, in the order of a plain comparison of all paths."""

from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.graph.resolution.candidates import MAX_CANDIDATES
from cocosearchd.graph.resolution.resolver import Resolver
from tests.graph.sources import parse_sources

names = st.text("ab", min_size=1, max_size=3)
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: f"{'/'.join(parts)}.py")


@given(st.sets(paths, min_size=2, max_size=30), paths)
def test_the_nearest_definitions_come_first(defining: set[str], user: str) -> None:
    method = "class A:\n    def go(self): pass\n"
    use = "def f(x):\n    x.go()\n"
    texts = dict.fromkeys(defining, method) | {user: method + use}
    files = parse_sources(texts)
    file = files.load([user])[user]
    (call,) = file.facts.uses_named({"go"})
    resolved = Resolver(files).resolve(file, call)

    def order(path: str) -> tuple[int, str]:
        shared = (n for n in range(len(path), -1, -1) if user.startswith(path[:n]))
        return -next(shared), path

    nearest = sorted(texts, key=order)[:MAX_CANDIDATES]
    assert [key.path for key in resolved.definitions] == nearest
    assert resolved.reason == ("name_only" if len(texts) > 1 else "unique_name")
