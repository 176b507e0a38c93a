"""Lists of symbols: each once with its own lines, the same from memory and from the store."""

import json
from pathlib import Path

import pytest

from cocosearchd.api.overlay_sessions import OverlayRules, OverlaySessions
from cocosearchd.config.settings import IndexingSettings
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.errors import InvalidInput
from cocosearchd.forms.path_forms import path_text
from cocosearchd.indexing.pipeline.skip_rules import SkipRules
from cocosearchd.indexing.pool.overlay_parser import OverlayParser
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.model import Hit
from cocosearchd.search.answers.multi_index import search_several
from cocosearchd.search.listing.list_cursor import ListCursor, ListPosition, decode_cursor
from cocosearchd.search.listing.symbol_list import next_cursor
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import parse_query
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.lineage import LINEAGE
from tests.search.corpus import Corpus, new_corpus

pytestmark = pytest.mark.anyio

FILES = {
    "A.java": """package a;

public class A {
    private final int size;

    public A(int size) {
        this.size = size;
    }

    public int twice(int n) {
        return 2 * n;
    }

    public long twice(long n) {
        return 2 * n;
    }
}
""",
    "Dockerfile": "FROM python:3 AS builder\nRUN make\n\nFROM scratch\nCOPY --from=builder /a /b\n",
    "app.ts": """export interface Shape {
  area(): number;
}

export class Square implements Shape {
  constructor(private side: number) {}
  area(): number { return this.side ** 2; }
}
""",
    "boot.py": """import os

LIMIT = 3


class Boot:
    @property
    def ready(self):
        return True

    def _load_settings(self, path):
        return os.stat(path)


def load_settings(path):
    return Boot()._load_settings(path)
""",
    "color.rs": """pub enum Color {
    Red,
    Green,
}

pub trait Paint {
    fn paint(&self) -> Color;
}

pub struct Brush;

impl Paint for Brush {
    fn paint(&self) -> Color {
        Color::Red
    }
}
""",
    "main.tf": """resource "aws_s3_bucket" "logs" {
  bucket = "logs"
}

variable "region" {
  default = "eu"
}

data "aws_ami" "base" {}
""",
    "schema.sql": "create table users (\n  id int\n);\n\ncreate view active as select * from users;\n",
    "store.go": """package store

type Store struct {
	path string
}

func (s *Store) Load(key string) error {
	return nil
}
""",
    "tests/test_boot.py": "def load_settings():\n    assert True\n",
}
RULES = OverlayRules(
    chunker_limits(IndexingSettings()),
    SkipRules(max_file_bytes=1 << 20, index_secrets=False, any_type=False),
)
Row = tuple[str, int, int, str, str, str | None]
METHODS: list[Row] = [
    ("A.java", 6, 8, "A.A", "public A(int size)", "A"),
    ("A.java", 10, 12, "A.twice", "public int twice(int n)", "A"),
    ("A.java", 14, 16, "A.twice", "public long twice(long n)", "A"),
    ("app.ts", 2, 2, "Shape.area", "area(): number", "Shape"),
    (
        *("app.ts", 6, 6, "Square.constructor"),
        *("constructor(private side: number)", "Square"),
    ),
    ("app.ts", 7, 7, "Square.area", "area(): number", "Square"),
    ("boot.py", 7, 9, "Boot.ready", "def ready(self)", "Boot"),
    ("boot.py", 11, 12, "Boot._load_settings", "def _load_settings(self, path)", "Boot"),
    ("color.rs", 7, 7, "Paint.paint", "fn paint(&self) -> Color;", "Paint"),
    ("color.rs", 13, 15, "Brush.paint", "fn paint(&self) -> Color", "Brush"),
    ("store.go", 7, 9, "Store.Load", "func (s *Store) Load(key string) error", "Store"),
]
LISTS = {
    "sym:class": ["A", "Square", "Boot", "Color", "Paint", "Brush", "Store"],
    "sym:interface": ["Shape", "Paint"],
    "sym:enum,struct": ["Color", "Brush", "Store"],
    "sym:resource": ["resource.aws_s3_bucket.logs"],
    "sym:variable": ["variable.region"],
    "sym:table,view": ["users", "active"],
    "sym:stage": ["builder", "scratch"],
    "name:builder lang:docker": ["builder"],
    "sym:impl": ["Brush"],
    "sym:constant": ["LIMIT"],
    "name:aws_s3_bucket*": ["resource.aws_s3_bucket.logs"],
    "name:aws_ami.base sym:data": ["data.aws_ami.base"],
    "name:_load*": ["Boot._load_settings"],
    "name:LOAD": ["Store.Load"],
    "name:twice lang:java": ["A.twice", "A.twice"],
    "name:Boot.*": ["Boot.ready", "Boot._load_settings"],
    "sym:function path:tests/**": ["load_settings"],
    "name:nowhere": [],
}


@pytest.fixture
async def stored(db: Database, tmp_path: Path) -> Corpus:
    return await new_corpus(db, tmp_path / "stored", FILES, name="stored")


@pytest.fixture
async def warm(db: Database, tmp_path: Path) -> Corpus:
    return await new_corpus(
        db, tmp_path / "warm", FILES, name="warm", lexical=tmp_path / "snapshots"
    )


def row(hit: Hit) -> Row:
    assert hit.symbol_name is not None
    assert hit.symbol_signature is not None
    return (
        hit.path,
        hit.start_line,
        hit.end_line,
        hit.symbol_name,
        hit.symbol_signature,
        hit.symbol_parent,
    )


async def rows(corpus: Corpus, text: str, overlay: Overlay | None = None) -> list[Row]:
    query = parse_query(text, limit=100)
    answer = await corpus.pipeline.run(corpus.record, query, Trace(), overlay=overlay)
    assert not answer.more
    return list(map(row, answer.hits))


async def test_a_symbol_has_its_own_lines_signature_and_parent(stored: Corpus) -> None:
    assert await rows(stored, "sym:method") == METHODS


@pytest.mark.parametrize(("text", "names"), LISTS.items())
async def test_every_kind_is_listed_by_path(stored: Corpus, text: str, names: list[str]) -> None:
    assert [name for _, _, _, name, _, _ in await rows(stored, text)] == names


async def test_memory_and_store_give_the_same_list(stored: Corpus, warm: Corpus) -> None:
    for text in (*LISTS, "sym:method", "name:*", "name:load*", "name:*oad*", "name:Load_Settings"):
        for profile in ("code", "classic"):
            trace = Trace()
            query = parse_query(text, limit=100, profile=profile)
            answer = await warm.ask(query, trace)
            assert list(map(row, answer.hits)) == await rows(stored, text), text
            assert ("retrieve" in trace.timings_ms) is (profile == "classic")


async def test_names_as_written_come_first_and_tests_after_others(stored: Corpus) -> None:
    places = [(path, name) for path, _, _, name, _, _ in await rows(stored, "name:load_settings")]
    assert places == [
        ("boot.py", "load_settings"),
        ("tests/test_boot.py", "load_settings"),
        ("boot.py", "Boot._load_settings"),
    ]
    places = [(path, name) for path, _, _, name, _, _ in await rows(stored, "name:Load*")]
    assert places[0] == ("store.go", "Store.Load")


@pytest.mark.parametrize("text", ["sym:method", "name:*load*", "sym:class"])
async def test_pages_make_up_the_list(stored: Corpus, warm: Corpus, text: str) -> None:
    for corpus in (stored, warm):
        for limit in (1, 2, 3):
            assert await paged(corpus, text, limit) == await rows(corpus, text)


async def paged(corpus: Corpus, text: str, limit: int) -> list[Row]:
    """Return all pages; a symbol that is on two of them is there twice."""
    hits: list[Hit] = []
    cursor = None
    while cursor or not hits:
        query = parse_query(text, limit=limit, cursor=cursor)
        answer = await corpus.ask(query)
        assert len(answer.hits) == limit or not answer.more
        hits += answer.hits
        generations = {answer.index: answer.generation}
        cursor = next_cursor(query, answer.hits, generations) if answer.more else None
    return list(map(row, hits))


async def test_a_page_begins_where_the_last_one_ended_after_a_save(warm: Corpus) -> None:
    query = parse_query("sym:method", limit=3)
    first = await warm.ask(query)
    cursor = next_cursor(query, first.hits, {first.index: first.generation})
    await warm.save("A.java", "package a;\n\nclass A { void first() {} }\n")
    await warm.delete("app.ts")
    second = await warm.ask(parse_query("sym:method", limit=3, cursor=cursor))
    assert list(map(row, second.hits)) == METHODS[6:9]


async def test_unsaved_text_replaces_the_symbols_of_its_file(
    stored: Corpus, warm: Corpus, overlay_parser: OverlayParser
) -> None:
    text = b"class Boot:\n    def unsaved(self):\n        return 1\n"
    for corpus in (stored, warm):
        overlays = OverlaySessions(lambda _: BuiltinEmbedder(), overlay_parser)
        with overlays.session() as session:
            await overlays.put(session, corpus.record, "boot.py", text, RULES)
            await overlays.put(session, corpus.record, "new.py", b"def fresh():\n    pass\n", RULES)
            overlay = await overlays.overlay(session, corpus.record)
        methods = await rows(corpus, "sym:method", overlay)
        assert [name for path, _, _, name, _, _ in methods if path == "boot.py"] == ["Boot.unsaved"]
        assert len(methods) == len(METHODS) - 1
        assert await rows(corpus, "name:fresh", overlay) == [
            ("new.py", 1, 2, "fresh", "def fresh()", None)
        ]


async def test_several_indexes_are_listed_one_after_the_other(db: Database, tmp_path: Path) -> None:
    outer = await new_corpus(db, tmp_path / "code", FILES, name="outer")
    inner = await new_corpus(
        db, tmp_path / "code" / "sub", {"b.py": "def load():\n    pass\n"}, name="inner"
    )
    zoo_path = tmp_path / "other"
    zoo = await new_corpus(db, zoo_path, {"c.py": "def load():\n    pass\n"}, name="zoo")
    await outer.index("sub/b.py", b"def load():\n    pass\n")
    corpora = (zoo, outer, inner)
    merged = await search_several(
        outer.pipeline, [c.record for c in corpora], parse_query("name:load*", limit=50)
    )
    names = [(hit.index, hit.path) for hit in merged.hits]
    assert names[0] == ("inner", "b.py")
    assert names[-1] == ("zoo", "c.py")
    assert ("outer", "sub/b.py") not in names
    assert merged.cursor is None
    pages: list[tuple[str, str]] = []
    cursor = None
    for _ in range(20):
        page = await search_several(
            outer.pipeline,
            [c.record for c in corpora],
            parse_query("name:load*", limit=2, cursor=cursor),
        )
        pages += [(hit.index, hit.path) for hit in page.hits]
        cursor = page.cursor
        if cursor is None:
            break
    assert pages == names


async def test_files_without_stored_symbols_are_counted(stored: Corpus) -> None:
    async with stored.db.connection() as connection:
        text = "update {files} set symbols = null where filename = 'boot.py'"
        await connection.execute(compose(text, stored.record))
        await connection.execute(
            compose("update {files} set symbols = 'x' where filename = 'A.java'", stored.record)
        )
    answer = await stored.ask(parse_query("sym:method", limit=100))
    assert {hit.path for hit in answer.hits} == {"app.ts", "color.rs", "store.go"}
    assert answer.warnings[0].startswith("the symbols of 2 files are missing")


CURSOR = ListCursor("a", ListPosition(True, True, "b", 1, "c"), 7).encode()


def test_a_cursor_survives_its_text() -> None:
    path = path_text(b"d\xc3\xb6/\xff.py")
    cursor = ListCursor("a-b", ListPosition(True, False, path, 7, "Über.größe"), 3 * LINEAGE)
    assert decode_cursor(cursor.encode()) == cursor
    assert set(cursor.encode()) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    )


@pytest.mark.parametrize(
    "text",
    ["", "x", "é", "bnVsbA", CURSOR[:-6], json.dumps(["a", True, False, "b", 1, "c", 7])],
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a cursor"):
        decode_cursor(text)


async def test_only_lists_have_cursors(stored: Corpus) -> None:
    with pytest.raises(InvalidInput, match="only a list"):
        await stored.ask(parse_query("words", cursor=CURSOR))
