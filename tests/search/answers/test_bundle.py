"""Bundles: what a budget of tokens shows of a long question's files."""

from collections import Counter
from dataclasses import replace

import pytest

from cocosearch_ipc.render.line_range import extent
from cocosearchd.languages import definition_ranges
from cocosearchd.languages.parse import parse
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import Hit, Place, RankedPlace
from cocosearchd.search.answers.bundle import (
    FILE_SHARES,
    SourceText,
    estimate_shares,
    name_hit,
    pack_hits,
)
from cocosearchd.search.answers.disk_files import make_contents

WIDTH = 200


def source_of(text: str) -> SourceText:
    data = text.encode()
    return SourceText(make_contents(data), definition_ranges.pack(parse("a.py", data).symbols))


def module(functions: int) -> str:
    """Python with functions of six lines each, the first one from line 1."""
    return "".join(
        f"def handle_{number}(request):\n"
        f"    value = request.get({number})\n"
        "    if value is None:\n"
        f'        raise KeyError("no value {number}")\n'
        "    return value\n"
        "\n"
        for number in range(functions)
    )


def places_of(text: str, scores: dict[int, float]) -> tuple[RankedPlace, ...]:
    """Return the functions of `module` as places, best first. `scores`: number -> score."""
    functions = text.split("def ")[1:]
    starts = [text.index(f"def {function}") for function in functions]
    places = [
        RankedPlace(start, start + len(f"def {function}"), scores.get(number, 0.0), 0.1)
        for number, (start, function) in enumerate(zip(starts, functions, strict=True))
    ]
    return tuple(sorted(places, key=lambda entry: -entry.score))


def hit_of(path: str, text: str, scores: dict[int, float]) -> Hit:
    """A hit whose places are the functions of `module`."""
    places = places_of(text, scores)
    best = places[0]
    first = text.count("\n", 0, best.start_byte) + 1
    content = text[best.start_byte : best.end_byte].rstrip("\n")
    return Hit(
        index="code", path=path, start_byte=best.start_byte, end_byte=best.end_byte,
        start_line=first, end_line=first + content.count("\n"), language="python", score=1.0,
        match_type="both", block_type="", hierarchy="", symbol_type="function",
        symbol_name=content[4:12], symbol_signature=None, content=content, relevance=0.5,
        line=first, compared_places=places,
    )  # fmt: skip


def shown(hit: Hit) -> set[int]:
    """Return the lines that a hit shows."""
    lines = {
        line for entry in hit.other_places for line in range(entry.start_line, entry.end_line + 1)
    }
    if hit.content:
        first, last = extent(hit.context_before, hit.start_line, hit.end_line, hit.context_after)
        lines |= set(range(first, last + 1))
    return lines


def tokens_of(hits: tuple[Hit, ...]) -> int:
    """Estimate the tokens of all code of hits, and of a line for each place."""
    return sum(
        estimate_tokens(name_hit(hit))
        + sum(
            estimate_tokens(text) for text in (hit.context_before, hit.content, hit.context_after)
        )
        + sum(
            estimate_tokens(f"{hit.path}:1-2\n```\n{entry.content}\n```")
            for entry in hit.other_places
        )
        for hit in hits
    )


def pack(hits: list[Hit], texts: dict[str, str], budget: int) -> tuple[Hit, ...]:
    return pack_hits(hits, [source_of(texts[hit.path]) for hit in hits], budget, WIDTH)


def test_the_first_file_shows_more_places_than_the_last_one() -> None:
    text = module(30)
    texts = {f"a{number}.py": text for number in range(8)}
    hits = [hit_of(path, text, {3: 2.0, 9: 1.5, 20: 1.0}) for path in texts]
    packed = pack(hits, texts, 1500)
    assert [hit.path for hit in packed] == list(texts)
    assert {19, 20, 21, 22, 23, 55, 56, 121} <= shown(packed[0])
    assert len(shown(packed[0])) > len(shown(packed[1])) > len(shown(packed[7]))


@pytest.mark.parametrize("budget", [250, 400, 1000, 3000, 8000])
def test_a_bundle_keeps_and_fills_its_budget(budget: int) -> None:
    text = module(40)
    texts = {f"src/package/module_{number}.py": text for number in range(40)}
    hits = [hit_of(path, text, {number % 40: 3.0}) for number, path in enumerate(texts)]
    packed = pack(hits, texts, budget)
    assert 0.6 * budget < tokens_of(packed) <= budget


def test_neighbours_are_shown_in_one_piece() -> None:
    text = module(10)
    (hit,) = pack([hit_of("a.py", text, {4: 3.0, 5: 2.9, 3: 2.8})], {"a.py": text}, 220)
    assert hit.other_places == ()
    assert hit.content.startswith("def handle_4")
    assert "def handle_3" in hit.context_before
    assert "def handle_5" in hit.context_after
    assert min(shown(hit)) == 19


def test_a_place_inside_of_a_definition_has_its_signature() -> None:
    body = "".join(f"    total += values[{number}] * weights[{number}]\n" for number in range(60))
    text = f"def add_up(values, weights):\n    total = 0\n{body}    return total\n"
    lines = text.splitlines(keepends=True)
    start = len("".join(lines[:30]))
    best_place = RankedPlace(start, start + len("".join(lines[30:33])), 1.0, 0.4)
    far = len("".join(lines[:50]))
    far_place = RankedPlace(far, far + len("".join(lines[50:52])), 0.9, 0.3)
    hit = replace(
        hit_of("a.py", module(1), {}),
        start_byte=best_place.start_byte, end_byte=best_place.end_byte, start_line=31, end_line=33,
        content="".join(lines[30:33]).rstrip("\n"), compared_places=(best_place, far_place),
    )  # fmt: skip
    (packed,) = pack([hit], {"a.py": text}, 2000)
    assert packed.context_before == "def add_up(values, weights):\n…"
    assert shown(packed) == {31, 32, 33, 51, 52}
    (also,) = packed.other_places
    assert also.symbol_signature == "def add_up(values, weights):"
    assert also.content == "".join(lines[50:52]).rstrip("\n")


def test_a_known_place_keeps_its_symbol_and_the_line_to_open() -> None:
    text = module(12)
    hit = hit_of("a.py", text, {1: 3.0, 9: 2.5})
    basket_place = Place(
        55, 59, 0, 9, "function", "handle_9", "def handle_9(request)", 0.4, 57, "if value is None:"
    )
    (packed,) = pack([replace(hit, other_places=(basket_place,))], {"a.py": text}, 160)
    also = next(entry for entry in packed.other_places if entry.start_line <= 55 <= entry.end_line)
    assert (also.symbol_name, also.line, also.text) == ("handle_9", 57, "if value is None:")
    assert "no value 9" in also.content


def test_files_without_room_are_named() -> None:
    text = module(40)
    texts = {f"a{number}.py": text for number in range(6)}
    packed = pack([hit_of(path, text, {0: 9.0}) for path in texts], texts, 800)
    assert len(packed) > 2
    assert [hit.path for hit in packed if hit.content][:1] == ["a0.py"]
    (small, *rest) = pack([hit_of(path, text, {0: 9.0}) for path in texts], texts, 250)
    assert small.content
    assert all(not hit.content and not hit.other_places for hit in rest)


def test_a_changed_file_shows_its_stored_text_alone() -> None:
    text = module(5)
    hit = replace(hit_of("a.py", text, {2: 2.0}), stale=True)
    (packed,) = pack_hits([hit], [None], 500, WIDTH)
    assert packed.content == hit.content
    assert packed.stale
    assert not packed.other_places


def test_a_place_that_a_line_names_comes_first() -> None:
    text = module(30)
    hit = hit_of("a.py", text, {2: 3.0})
    named_hit = replace(hit, compared_places=(hit.compared_places[-1], *hit.compared_places[:-1]))
    (packed,) = pack([named_hit], {"a.py": text}, 120)
    named_line = text.count("\n", 0, named_hit.compared_places[0].start_byte) + 1
    assert named_line in shown(packed)


def test_a_budget_for_no_place_packs_nothing() -> None:
    text = module(5)
    assert pack([hit_of("a.py", text, {0: 1.0})], {"a.py": text}, 20) == ()


def test_a_file_has_the_share_of_its_rank_in_its_own_index() -> None:
    text = module(3)
    first, second = hit_of("a.py", text, {}), hit_of("b.py", text, {})
    weak = replace(first, index="other", relevance=0.25)
    assert estimate_shares([first, weak, second]) == [
        FILE_SHARES[0],
        0.25 * FILE_SHARES[0],
        FILE_SHARES[1],
    ]
    hopeless = [replace(hit, relevance=0.0) for hit in (first, second)]
    assert estimate_shares(hopeless) == [FILE_SHARES[0], FILE_SHARES[1]]
    assert estimate_shares([]) == []


def test_an_index_with_better_hits_shows_more_code() -> None:
    text = module(30)
    paths = [f"{index}/{number}.py" for number in range(4) for index in ("code", "other")]
    hits = [
        replace(
            hit_of(path, text, {3: 2.0, 9: 1.5}),
            index=path.partition("/")[0],
            relevance=0.5 if path.startswith("code") else 0.2,
        )
        for path in paths
    ]
    packed = pack(hits, dict.fromkeys(paths, text), 3000)
    lines = Counter[str]()
    for hit in packed:
        lines[hit.index] += len(shown(hit))
    assert [hit.path for hit in packed] == paths
    assert lines["code"] > 2 * lines["other"] > 0
