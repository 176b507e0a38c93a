"""Names are found in the same spellings by both engines: PostgreSQL and the lexical index."""

from pathlib import Path

import pytest

from cocosearchd.search.plan import parse_query
from cocosearchd.store.connection.database import Database
from tests.search.corpus import Corpus, new_corpus

pytestmark = pytest.mark.anyio

FILES = {
    "private.py": "def _load_settings():\n    return 1\n",
    "camel.ts": "function getUserById(id) {\n  return id;\n}\n",
    "kebab.html": "<my-web-component></my-web-component>\n",
    "special.py": "class Table:\n    def __class_getitem__(cls, key):\n        return cls\n",
    "chinese.go": "// 根据订单编号查询订单详情\nfunc Query() {}\n",
    "mixed.go": "// 使用parseConfig方法\nfunc Use() {}\n",
    "accent.py": "# Menü für das Café\ncarte = 1\n",
    "abbreviation.java": "class HTTPServer2 { }\n",
}


@pytest.fixture
async def corpus(db: Database, tmp_path: Path) -> Corpus:
    return await new_corpus(db, tmp_path / "root", FILES, lexical=tmp_path / "lexical")


PATH_BY_QUERY = {
    "load_settings": "private.py",
    "_load_settings": "private.py",
    "__load_settings": "private.py",
    "getUserById": "camel.ts",
    "get user by id": "camel.ts",
    "my-web-component": "kebab.html",
    "web component": "kebab.html",
    "__class_getitem__": "special.py",
    "查询订单": "chinese.go",
    "订单编号": "chinese.go",
    "parseConfig": "mixed.go",
    "使用parseConfig": "mixed.go",
    "cafe": "accent.py",
    "MENÜ": "accent.py",
    "HTTPServer2": "abbreviation.java",
    "http server": "abbreviation.java",
    "unload_settings": None,
    "订单退款": None,
}


@pytest.mark.parametrize("profile", ["classic", "code"])
async def test_both_engines_find_a_name_in_the_same_spellings(corpus: Corpus, profile: str) -> None:
    matches = {query: await complete_matches(corpus, query, profile) for query in PATH_BY_QUERY}
    assert matches == {query: {path} - {None} for query, path in PATH_BY_QUERY.items()}


async def complete_matches(corpus: Corpus, query: str, profile: str) -> set[str]:
    """Return the paths of the chunks that have every word of a query."""
    answer = await corpus.ask(parse_query(query, limit=20, profile=profile, use_hybrid=True))
    return {hit.path for hit in answer.hits if dict(hit.signals)["every_word"]}


async def test_a_private_definition_is_found_by_its_plain_name(corpus: Corpus) -> None:
    answer = await corpus.ask(parse_query("load_settings", profile="code"))
    assert answer.hits[0].path == "private.py"
    assert dict(answer.hits[0].signals)["defined_folded"] > 0
