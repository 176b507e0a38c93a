"""Answers to long questions within a budget, over real PostgreSQL and files; short ones are
unchanged.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from cocosearchd.config.settings import SearchSettings
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import Hit
from cocosearchd.search.answers.bundle import name_hit
from cocosearchd.search.answers.context import fit_budget
from cocosearchd.search.answers.multi_index import MergedAnswer, search_several
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.search.plan import Query, parse_query
from cocosearchd.store.connection.database import Database
from tests.search.corpus import Corpus, new_corpus

pytestmark = pytest.mark.anyio


def module(topic: str, functions: int, middle: str = "") -> str:
    """Python with several chunks, and other code in the middle."""
    parts = [
        f"def {topic}_step_{number}(basket, options):\n"
        + "".join(
            f"    basket.{topic}_{number}_{line} = options.get('{topic}_{line}')\n"
            for line in range(12)
        )
        + "    return basket\n\n\n"
        for number in range(functions)
    ]
    return "".join((*parts[: functions // 2], middle, *parts[functions // 2 :]))


COUPON = """def redeem_coupon(basket, coupon):
    if coupon.used:
        raise ValueError("this coupon was used before")
    basket.discount = coupon.discount
    return basket


"""
FILES = {
    "shop/coupons.py": module("coupon", 8, COUPON),
    **{f"shop/{topic}.py": module(topic, 8) for topic in ("payment", "basket", "stock", "mail")},
}
REPORT = """Redeeming a coupon twice is not refused in a basket

I added the same coupon twice, and `redeem_coupon` did not say that
this coupon was used before. The discount of the basket counted twice.

```
Traceback (most recent call last):
  File "/srv/shop/coupons.py", line 3, in coupon_step_0
ValueError: no discount
```
"""


@pytest.fixture(scope="module")
async def warm(module_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("warm")
    return await new_corpus(
        module_db, folder / "root", FILES, name="warm", lexical=folder / "words"
    )


async def test_the_first_file_has_several_places_and_the_rest_are_named(warm: Corpus) -> None:
    plain = await warm.ask(parse_query(REPORT))
    answer = await warm.ask(parse_query(REPORT, budget_tokens=1200))
    assert [hit.path for hit in answer.hits] == [hit.path for hit in plain.hits]
    first = answer.hits[0]
    other_texts = (entry.content for entry in first.other_places)
    code = "\n".join((first.context_before, first.content, first.context_after, *other_texts))
    assert first.path == "shop/coupons.py"
    assert "coupon_step_0" in first.content  # the line of the frame
    assert "def redeem_coupon" in code
    assert answer.hits[-1].content == ""
    assert answer.omitted == 0


async def test_lines_that_are_asked_for_are_shown_as_before(warm: Corpus) -> None:
    plain = await warm.ask(parse_query(REPORT, lines_before=1, lines_after=1))
    answer = await warm.ask(parse_query(REPORT, lines_before=1, lines_after=1, budget_tokens=900))
    assert answer.hits == fit_budget(plain.hits, None, 900)


async def test_a_short_question_has_the_longest_prefix_that_fits(warm: Corpus) -> None:
    for question in ("redeem_coupon", "where is a coupon redeemed", "basket"):
        plain = await warm.ask(parse_query(question))
        answer = await warm.ask(parse_query(question, budget_tokens=500))
        assert answer.hits == fit_budget(plain.hits, None, 500)
        assert not any(hit.compared_places for hit in plain.hits)


async def test_a_changed_file_is_marked_and_shows_its_stored_text(
    db: Database, tmp_path: Path
) -> None:
    corpus = await new_corpus(
        db, tmp_path / "root", FILES, name="changed", lexical=tmp_path / "words"
    )
    (tmp_path / "root/shop/coupons.py").write_text("gone = True\n")
    answer = await corpus.ask(parse_query(REPORT, budget_tokens=900))
    assert answer.hits[0].stale
    assert "coupon" in answer.hits[0].content
    assert answer.changed_paths == ("shop/coupons.py",)
    assert not any(hit.stale for hit in answer.hits[1:])


MAIL = {
    "mail/outbox.py": module("outbox", 8, COUPON.replace("redeem_coupon", "announce_coupon")),
    "mail/inbox.py": module("inbox", 8),
}


@dataclass(frozen=True)
class Joint:
    """Several indexes with one pipeline."""

    corpora: list[Corpus]
    pipeline: Pipeline

    async def ask(self, query: Query) -> MergedAnswer:
        return await search_several(self.pipeline, [c.record for c in self.corpora], query)


async def join(db: Database, folder: Path, indexes: dict[str, dict[str, str]]) -> Joint:
    corpora = [
        await new_corpus(db, folder / name, files, name=name, lexical=folder / f"{name}-words")
        for name, files in indexes.items()
    ]
    words = {corpus.record.name: corpus.lexical for corpus in corpora}
    return Joint(corpora, Pipeline(db, corpora[0].embedder, SearchSettings(), words.get))


def code_of(hit: Hit) -> str:
    """Return all code that a hit shows."""
    texts = (hit.context_before, hit.content, hit.context_after)
    return "\n".join((*texts, *(entry.content for entry in hit.other_places)))


def shown_tokens(hits: tuple[Hit, ...]) -> int:
    return sum(estimate_tokens(name_hit(hit)) + estimate_tokens(code_of(hit)) for hit in hits)


async def test_a_budget_is_spent_on_the_best_places_of_all_indexes(
    db: Database, tmp_path: Path
) -> None:
    joint = await join(db, tmp_path, {"shop": FILES, "mail": MAIL})
    everything = await joint.ask(parse_query(REPORT))
    merged = await joint.ask(parse_query(REPORT, budget_tokens=1500))
    assert [(hit.index, hit.path) for hit in merged.hits] == [
        (hit.index, hit.path) for hit in everything.hits
    ]
    assert {hit.index for hit in merged.hits} == {"shop", "mail"}
    assert merged.omitted == 0
    code = {hit.path: code_of(hit) for hit in merged.hits}
    assert "def redeem_coupon" in code["shop/coupons.py"]
    assert "def announce_coupon" in code["mail/outbox.py"]
    assert 750 < shown_tokens(merged.hits) <= 1500


@pytest.mark.parametrize("budget", [300, 900, 2000])
async def test_one_index_of_several_that_answers_has_all_of_the_budget(
    db: Database, tmp_path: Path, budget: int
) -> None:
    unrelated = {"zoo.py": "class Elephant:\n    trunk = 1\n"}
    joint = await join(db, tmp_path, {"shop": FILES, "zoo": unrelated})
    query = parse_query(REPORT, budget_tokens=budget)
    merged = await joint.ask(query)
    alone = await joint.corpora[0].ask(query)
    assert [code_of(hit) for hit in merged.hits] == [code_of(hit) for hit in alone.hits]


async def test_a_budget_for_no_place_shows_the_first_hits(db: Database, tmp_path: Path) -> None:
    joint = await join(db, tmp_path, {"shop": FILES, "mail": MAIL})
    everything = await joint.ask(parse_query(REPORT))
    merged = await joint.ask(parse_query(REPORT, budget_tokens=40))
    assert merged.hits == fit_budget(everything.hits, None, 40)
    assert len(merged.hits) + merged.omitted == len(everything.hits)


async def test_a_file_of_several_indexes_that_changed_shows_its_stored_text(
    db: Database, tmp_path: Path
) -> None:
    joint = await join(db, tmp_path, {"shop": FILES, "mail": MAIL})
    (tmp_path / "shop/shop/coupons.py").write_text("gone = True\n")
    merged = await joint.ask(parse_query(REPORT, budget_tokens=1500))
    assert [hit.path for hit in merged.hits if hit.stale] == ["shop/coupons.py"]
    assert "coupon" in next(hit.content for hit in merged.hits if hit.stale)
    changed = {answer.index: answer.changed_paths for answer in merged.answers}
    assert changed == {"shop": ("shop/coupons.py",), "mail": ()}


async def test_a_header_is_named_with_its_source_and_a_test_where_one_asks_for_it(
    db: Database, tmp_path: Path
) -> None:
    files = {
        "include/shop/coupon.hpp": "struct Coupon { bool used; };\nvoid redeem(Coupon &coupon);\n",
        "src/coupon.cpp": "void redeem(Coupon &coupon) {\n  coupon.used = true;\n}\n",
        "shop/basket.py": "def empty_basket(basket):\n    basket.clear()\n",
        "tests/test_basket.py": "def test_empty_basket():\n    assert empty_basket([]) is None\n",
    }
    corpus = await new_corpus(db, tmp_path / "root", files, name="shop", lexical=tmp_path / "words")

    async def counterparts_for(question: str) -> dict[str, tuple[str, ...]]:
        answer = await corpus.ask(question)
        return {hit.path: hit.counterparts for hit in answer.hits if hit.counterparts}

    pair = {
        "include/shop/coupon.hpp": ("src/coupon.cpp",),
        "src/coupon.cpp": ("include/shop/coupon.hpp",),
    }
    assert await counterparts_for("redeem a coupon in a basket") == pair
    with_test = await counterparts_for("which test covers an empty basket or coupon")
    assert with_test == {**pair, "shop/basket.py": ("tests/test_basket.py",)}
