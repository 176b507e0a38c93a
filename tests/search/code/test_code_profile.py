"""The linear score: its sum, the representative chunk of a file, and scores without vectors."""

from dataclasses import replace

import numpy as np
import pytest

from cocosearchd.model import Revision
from cocosearchd.search.code.code_profile import (
    MAX_SIGNALS,
    RankedChunk,
    Weights,
    compute_signals,
    load_weights,
    rank_chunks,
    rank_files,
    score_files,
    score_matrix,
)
from cocosearchd.search.code.place_scores import place_signals
from cocosearchd.search.history.history_evidence import TAIL_FILES, HistoryEvidence
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import (
    SignalMatrix,
    compute_signal_matrix,
    make_snapshot,
)
from cocosearchd.search.lexical.scoring import candidate_selection
from cocosearchd.search.lexical.segments.segment import SegmentView, build_segment
from cocosearchd.search.relevance import WEAK
from tests.search.history.history_cases import make_history
from tests.search.lexical.toy import DIMENSION, documents

FILES = {
    "src/router.py": "class Router:\n    def add(self): ...\n---\ndef helper(route): ...",
    "src/route_group.py": "def mount(router, prefix): ...",
    "tests/test_router.py": "def test_add():\n    Router().add()",
    "src/session.py": "class Session:\n    token = 1",
    "README.md": "The router.",
}
AXES = {"class Session:\n    token = 1": 0, "The router.": 1}
ONLY_S3 = replace(
    load_weights(),
    plain={"chunk_words": 1.0, "chunk": 0.0},
    symbol={"chunk_words": 1.0},
    plain_without_vectors={"chunk_words": 1.0},
    symbol_without_vectors={"chunk_words": 1.0},
)


def ask(
    query: str, vector: bool = False, files: dict[str, str] = FILES, result_count: int = 0
) -> tuple[SignalMatrix, bool]:
    terms = TermCache()
    query_terms = terms.make_query_terms(query)
    state = make_snapshot((SegmentView(build_segment(documents(files, AXES), DIMENSION)),), 1)
    question = np.eye(DIMENSION, dtype=np.float32)[0] if vector else None
    matrix = compute_signal_matrix(state, query_terms, terms, question, limit=result_count)
    return matrix, query_terms.is_name


def ranked(
    query: str, vector: bool = False, weights: Weights | None = None, limit: int = 10
) -> tuple[RankedChunk, ...]:
    matrix, symbol = ask(query, vector)
    return rank_chunks(score_matrix(matrix, symbol, weights or load_weights()), limit)


def test_every_weight_has_its_signal() -> None:
    weights = load_weights()
    with_vectors = compute_signals(ask("Router", vector=True)[0])
    without = compute_signals(ask("Router")[0])
    for names in (weights.plain, weights.symbol):
        assert names.keys() <= with_vectors.keys()
    for names in (weights.plain_without_vectors, weights.symbol_without_vectors):
        assert names.keys() <= without.keys()


def test_signals_of_a_symbol() -> None:
    matrix, _ = ask("Router")
    values = {
        name: dict(zip(matrix.paths, array.tolist(), strict=True))
        for name, array in compute_signals(matrix).items()
    }
    assert values["defined_exactly"]["src/router.py"] == 1.0  # a type, at the margin
    assert values["stem_match"] == {"src/router.py": 1.0, "src/route_group.py": 0.0, "tests/test_router.py": 0.0,
                                "src/session.py": 0.0, "README.md": 0.0}  # fmt: skip
    assert values["test"]["tests/test_router.py"] == 1.0
    assert values["prose"]["README.md"] == 1.0
    assert values["chunk_words"]["src/session.py"] == 0.0
    assert max(values["chunk_words"].values()) == pytest.approx(1.0)
    assert values["depth"]["README.md"] == pytest.approx(-0.8)  # four of five files lie one deeper


def test_definition_first_test_later() -> None:
    paths = [result.path for result in ranked("Router")]
    assert paths[0] == "src/router.py"
    assert "src/session.py" not in paths  # nothing speaks for it


def test_the_chunk_that_defines_the_name_stands_for_its_file() -> None:
    (best, *_) = ranked("Router")
    assert best.start_byte == 0
    matrix, symbol = ask("helper route")
    places = rank_chunks(score_matrix(matrix, symbol, load_weights()), 10)
    assert next(entry.start_byte for entry in places if entry.path == "src/router.py") > 0


def test_score_is_the_sum_of_its_signals_of_which_the_largest_explain_it() -> None:
    matrix, is_name = ask("how does the router add routes", vector=True)
    _, by_signal = score_files(matrix, is_name, load_weights())
    results = rank_chunks(score_matrix(matrix, is_name, load_weights()), 10)
    counts = list[int]()
    for result in results:
        file = matrix.paths.index(result.path)
        values = {name: float(signal[file]) for name, signal in by_signal.items() if signal[file]}
        assert result.score == pytest.approx(sum(values.values()), abs=1e-4)
        largest = sorted(values.items(), key=lambda entry: -abs(entry[1]))
        assert result.signals == tuple(largest[:MAX_SIGNALS])
        counts.append(len(values))
    assert min(counts) < MAX_SIGNALS < max(counts)


def test_vectors_find_what_words_do_not() -> None:
    assert [result.path for result in ranked("zzz", vector=True)] == ["src/session.py"]
    assert ranked("zzz") == ()
    assert ranked("zzz", vector=True)[0].cosine == pytest.approx(1.0, abs=0.01)


def test_files_without_vectors_stand_at_the_mean() -> None:
    matrix, _ = ask("router", vector=True)
    chunk = dict(zip(matrix.paths, compute_signals(matrix)["chunk"].tolist(), strict=True))
    # Two files have vectors, cosines 1 and 0: z-scores 1 and -1, a third of each.
    assert (chunk.pop("src/session.py"), chunk.pop("README.md")) == pytest.approx(
        (1 / 3, -1 / 3), abs=1e-3
    )
    assert set(chunk.values()) == {0.0}


def test_masks_leave_out_without_changing_scores() -> None:
    matrix, symbol = ask("router")
    full = {
        result.path: result.score
        for result in rank_chunks(score_matrix(matrix, symbol, ONLY_S3), 10)
    }
    files = np.array([path.startswith("src/") for path in matrix.paths])
    filtered = rank_chunks(score_matrix(replace(matrix, allowed=files), symbol, ONLY_S3), 10)
    assert {result.path: result.score for result in filtered} == {
        p: s for p, s in full.items() if p.startswith("src/")
    }
    chunks = np.array(
        [path == "README.md" for path in (matrix.paths[file] for file in matrix.chunks.files)]
    )
    assert [
        result.path
        for result in rank_chunks(score_matrix(matrix, symbol, ONLY_S3), 10, allowed_chunks=chunks)
    ] == ["README.md"]


@pytest.mark.parametrize("files", [{}, {"only.py": "class Router: ..."}])
def test_tiny_indexes(files: dict[str, str]) -> None:
    matrix, symbol = ask("Router", vector=True, files=files)
    assert [
        result.path for result in rank_chunks(score_matrix(matrix, symbol, load_weights()), 10)
    ] == list(files)


def test_a_file_has_its_other_places_where_they_are_among_the_best() -> None:
    files = {"a.py": "def find_user(): ...\n---\ndef find_all_user(): ...\n---\nx = 1"} | {
        f"b{number}.py": "user = 1" for number in range(9)
    }
    matrix, symbol = ask("how to find the user", files=files)
    for limit in (2, 5):
        places = rank_chunks(score_matrix(matrix, symbol, load_weights()), limit)
        assert len({entry.path for entry in places}) == limit
        assert [entry.path for entry in places[:2]] == ["a.py", "a.py"]
        assert places[0].place_score >= places[1].place_score
    everything = rank_chunks(score_matrix(matrix, symbol, load_weights()), 4, all_chunks=True)
    scores = [entry.relevance for entry in everything]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)


TESTED = {
    "src/client.py": "def build_redirect(request): ...\n---\ndef send(request): redirect(request)",
    "tests/test_redirects.py": "def test_redirect_request(): redirect(request)\n---\n"
    "def test_redirect_build(): redirect(request)",
    "src/other.py": "x = 1",
}


def test_tests_stand_behind_code_unless_a_sentence_asks_for_them() -> None:
    for question, first in (
        ("how are redirects of a request built", "src/client.py"),
        ("tests of redirects of a request", "tests/test_redirects.py"),
        ("test_redirect_request", "tests/test_redirects.py"),
    ):
        matrix, symbol = ask(question, files=TESTED)
        assert rank_chunks(score_matrix(matrix, symbol, load_weights()), 3)[0].path == first
    without = replace(
        load_weights(), plain_without_vectors={"chunk_words": 1.0, "name_coverage": 1.0}
    )
    matrix, symbol = ask("how are redirects of a request built", files=TESTED)
    assert (
        rank_chunks(score_matrix(matrix, symbol, without), 3)[0].path == "tests/test_redirects.py"
    )


def test_places_of_tests_leave_room_for_places_of_code() -> None:
    shares = {}
    for question in ("redirects of a request", "tests of redirects of a request"):
        matrix, symbol = ask(question, files=TESTED)
        places = rank_chunks(score_matrix(matrix, symbol, load_weights()), 3)
        shares[question] = [entry.path for entry in places].count("tests/test_redirects.py")
    assert list(shares.values()) == [1, 2]


def test_places_of_the_first_files_are_preferred() -> None:
    files = {"router.py": "def route(): user\n---\ndef routes(): user", "zzz.py": "def a(): user"}
    matrix, symbol = ask("route of the user", files=files)
    scores, _ = score_files(matrix, symbol, load_weights())
    signals = place_signals(matrix, scores)
    assert signals["file"].max() == 0
    of_last = signals["file"][matrix.chunks.files == matrix.paths.index("zzz.py")]
    assert of_last.tolist() == pytest.approx([float(scores.min() - scores.max())])
    assert load_weights().places["file"] > 0


def test_relevance_tells_a_sure_answer_from_a_guess() -> None:
    sure = ranked("Router")[0].relevance
    guess = ranked("session of unrelated quantum baking")[0].relevance
    assert 0 <= guess < 0.3 < 0.6 < sure <= 1


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("more_files", [{}, {"b.py": "import shop\nx = shop.Basket()"}])
def test_a_definition_is_a_sure_answer_to_its_name_in_any_case(
    vector: bool, more_files: dict[str, str]
) -> None:
    files = {"shop.py": "class Basket:\n    def add(self): ..."} | more_files
    for name in ("Basket", "basket", "BASKET"):
        matrix, symbol = ask(name, vector, files)
        best, *rest = rank_chunks(score_matrix(matrix, symbol, load_weights()), 10)
        assert best.path == "shop.py"
        assert best.relevance > 0.6 > 0.3 > max((entry.relevance for entry in rest), default=0)
    matrix, symbol = ask("where is the basket", vector, files)  # no name
    assert rank_chunks(score_matrix(matrix, symbol, load_weights()), 10)[0].relevance < 0.6


@pytest.mark.parametrize("vector", [False, True])
def test_a_name_that_no_file_defines_is_half_sure_where_few_files_use_it(vector: bool) -> None:
    def best_relevance(files: dict[str, str], name: str) -> float:
        matrix, symbol = ask(name, vector, files)
        return rank_chunks(score_matrix(matrix, symbol, load_weights()), 10)[0].relevance

    unrelated_files = {f"other{n}.py": f"def other{n}(): ..." for n in range(40)}
    patch = {"patch.py": "def check():\n    return {'path': 'biscuits'}"}
    defined = best_relevance({"shop.py": "def biscuits(): ..."} | unrelated_files, "biscuits")
    used_once = best_relevance(patch | unrelated_files, "biscuits")
    assert WEAK < used_once < 0.8 < defined
    uses = {f"use{n}.py": f"call_{n}(biscuits)" for n in range(30)}
    assert best_relevance(uses | unrelated_files, "biscuits") < WEAK


@pytest.mark.parametrize("vector", [False, True])
def test_equals_stand_by_path_whatever_the_limit_and_the_history(vector: bool) -> None:
    copies = {f"src/part{n}/router.py": FILES["src/router.py"] for n in range(9)}
    paths = [result.path for result in order_of(copies, vector, 20)]
    assert paths == sorted(copies)
    shuffled = dict(sorted(copies.items(), key=lambda item: int(item[0][8]) * 5 % 9))
    for limit in range(1, 10):
        assert [result.path for result in order_of(shuffled, vector, limit)] == paths[:limit]


def order_of(files: dict[str, str], vector: bool, limit: int) -> tuple[RankedChunk, ...]:
    matrix, symbol = ask("Router", vector, files)
    assert rank_files(matrix, symbol, load_weights())[: len(files)] == [
        matrix.paths.index(path) for path in sorted(files)
    ]
    places = rank_chunks(score_matrix(matrix, symbol, load_weights()), limit)
    return tuple(
        entry
        for number, entry in enumerate(places)
        if entry.path not in {former.path for former in places[:number]}
    )


NAMED = {
    "app.js": "// The current app: an app knows its current app by currentApp.\nclass App {}\n---\nuse(currentApp)",
    "app/index.js": "export { currentApp } from '../globals'",
    "globals.js": "import { App } from './app'  // currentApp, currentApp\n---\nexport const currentApp = proxy(App)",
    "app/session.js": "export class Session {}\nexport function open() { return Session.open(currentApp) }",
    "app/store.lua": "Session.open = function() end",
    "lib/parse.js": "function load() {}",
    "lib/fetch.js": "function load() {}\nfunction LOAD() {}",
}


@pytest.mark.parametrize(
    ("query", "sole"),
    [
        ("currentApp", {"globals.js": 1.0}),
        ("currentApp()", {"globals.js": 1.0}),
        ("lib.load()", {"lib/parse.js": 0.5, "lib/fetch.js": 0.5}),
        ("Session.open", {"app/store.lua": 1.0}),  # though app/session.js defines an open
        ("open", {"app/store.lua": 0.5, "app/session.js": 0.5}),
        ("currentapp", {}),  # another case is another name
    ],
)
def test_files_that_define_the_very_name(query: str, sole: dict[str, float]) -> None:
    matrix, _ = ask(query, files=NAMED)
    values = dict(
        zip(matrix.paths, compute_signals(matrix)["definition_share"].tolist(), strict=True)
    )
    assert {path: value for path, value in values.items() if value} == sole


@pytest.mark.parametrize("vector", [False, True])
def test_a_constant_stands_before_the_file_named_after_a_part_of_it(vector: bool) -> None:
    matrix, symbol = ask("currentApp", vector, NAMED)
    best, *rest = rank_chunks(score_matrix(matrix, symbol, load_weights()), 10)
    second = next(entry for entry in rest if entry.path != best.path)
    assert best.path == "globals.js"
    assert best.start_byte > 0  # not the chunk that only speaks of it
    assert best.score > second.score + 0.5
    assert dict(best.signals)["definition_share"] == pytest.approx(
        load_weights().select_files(True, vector)["definition_share"]
    )


USES = {
    "app.py": "def app_in_parent(app): ...\n---\ndef parent(): after = 1\n---\nclass Parent: ...",
    "family.py": "class Parent:\n    def after(self): ...\n---\nafter parent after parent\n---\nafter the parent",
    "src/deep/in/pool.py": f"def run(): call({', '.join(f'argument{n}' for n in range(90))}, after_parent=True)",
    "after.py": "def after(parent): parent.after()\n---\nparent, after",
}


@pytest.mark.parametrize("vector", [False, True])
def test_a_name_that_no_file_defines_is_in_the_file_that_has_it(vector: bool) -> None:
    for query in ("after_parent", "after_parent()", "AFTER_PARENT"):
        matrix, symbol = ask(query, vector, USES)
        assert (
            rank_chunks(score_matrix(matrix, symbol, load_weights()), 10)[0].path
            == "src/deep/in/pool.py"
        )
    sole = dict(
        zip(matrix.paths, compute_signals(matrix)["definition_share"].tolist(), strict=True)
    )
    assert {path for path, value in sole.items() if value} == {"src/deep/in/pool.py"}


def test_a_name_that_no_file_defines_is_compared_in_a_large_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidate_selection, "MIN_CANDIDATES", 2)
    monkeypatch.setattr(candidate_selection, "NAME_CANDIDATES", 2)
    matrix, symbol = ask("after_parent", files=USES)
    assert len(matrix.paths) < len(USES)
    assert (
        rank_chunks(score_matrix(matrix, symbol, load_weights()), 10)[0].path
        == "src/deep/in/pool.py"
    )


def test_a_sentence_has_no_file_of_its_own() -> None:
    matrix, _ = ask("where is after_parent", files=USES)
    assert not compute_signals(matrix)["definition_share"].any()


def test_names_of_chunks() -> None:
    matrix, _ = ask(
        "LOAD", files={"a.js": "function LOAD() {}\n---\nfunction load() {}\n---\nLOAD()"}
    )
    # A function, 2, and the lead of the very name, 1; 0.8 of 2 where the case differs; a use is no
    # definition.
    assert matrix.chunks.names.tolist() == pytest.approx([3.0, 1.6, 0.0])


def test_an_exact_name_is_found_first_however_deep_it_lies() -> None:
    deep = "/".join("abcdefghijklmnop") + "/deep.py"
    files = {f"near{number}.py": f"def word_{number}(): ..." for number in range(8)} | {
        deep: "def word_alone(): ..."
    }
    matrix, symbol = ask("word_alone", files=files)
    assert rank_chunks(score_matrix(matrix, symbol, load_weights()), 3)[0].path == deep


def test_an_exact_name_is_found_first_beside_a_file_of_another_size() -> None:
    files = {f"many/m{number}.py": f"def on_{number}(): ..." for number in range(400)}
    # with the question's vector
    files["other.py"] = next(iter(AXES)) + "\n---\nx = 1" + "\n# a long comment" * 40
    matrix, symbol = ask("on_5", vector=True, files=files)
    assert rank_chunks(score_matrix(matrix, symbol, load_weights()), 3)[0].path == "many/m5.py"


def test_vectors_count_more_and_size_less_if_no_name_matches() -> None:
    with_name, unnamed = (
        compute_signals(ask(query, vector=True)[0]) for query in ("router", "zzz")
    )
    for name in ("log_size", "mean_chunk_words", "chunk"):
        assert not with_name[f"{name}_unnamed"].any()  # router.py explains itself
        assert unnamed[f"{name}_unnamed"].tolist() == unnamed[name].tolist()


def test_words_that_say_little_count_less() -> None:
    clear, weak = (
        compute_signals(ask(query, vector=True)[0])
        for query in ("the session token", "the session zzz")
    )
    for name in ("chunk_words", "file_words", "log_size", "chunk"):
        assert not clear[f"{name}_weak"].any()  # a chunk has all that is asked
        assert weak[f"{name}_weak"].any()
    assert np.all(np.abs(weak["chunk_words_weak"]) < np.abs(weak["chunk_words"]).max())


@pytest.mark.parametrize("allowed_count", [5, 30, 150, None])
@pytest.mark.parametrize("limit", [40, 120])
def test_a_matrix_that_suffices_for_more_results_is_the_same(
    allowed_count: int | None, limit: int
) -> None:
    """A filter that few files pass, and a high limit, each add candidates."""
    files = {f"src/f{number:03}.py": f"router = {number}\n" * 3 for number in range(300)}
    state = make_snapshot((SegmentView(build_segment(documents(files, {}), DIMENSION)),), 1)
    terms = TermCache()
    query = terms.make_query_terms("router")

    def compute(result_count: int) -> SignalMatrix:
        passing = None if allowed_count is None else np.arange(300) < allowed_count
        return compute_signal_matrix(state, query, terms, None, lambda _: passing, result_count)

    fewer, more = compute(10), compute(limit)
    assert fewer.covers_limit(limit) == (limit == 40 and allowed_count in (150, None))
    if fewer.covers_limit(limit):
        assert fewer.paths == more.paths
    assert (fewer.paths != more.paths) == (limit == 120)


def test_a_larger_limit_only_adds_files_after_those_that_history_orders() -> None:
    files = {f"src/file{number:03}.py": "cookie " * number for number in range(1, TAIL_FILES + 60)}
    matrix, is_name = ask("the cookie is lost", files=files, result_count=len(files))
    scored = score_matrix(matrix, is_name, load_weights())
    paths = [result.path for result in rank_chunks(scored, len(files))]
    assert len(paths) == len(files)
    history = make_history(
        [
            Revision("a" * 40, "Keep the cookie", (paths[30],)),
            Revision("b" * 40, "The cookie is lost", (paths[-1], paths[-2])),
            Revision("c" * 40, "Lose the cookie", (paths[-1],)),
        ]
    )
    evidence = HistoryEvidence(history, TermCache().make_query_terms("the cookie is lost").terms)
    few, many = (rank_chunks(scored, limit, evidence=evidence) for limit in (40, len(files)))
    assert few == many[:40]
    assert {result.path for result in few} != set(paths[:40]) or few[30].path != paths[30]
    assert [result.path for result in many[TAIL_FILES:]] == paths[TAIL_FILES:]
    scores = [result.score for result in many]
    assert scores == sorted(scores, reverse=True)
