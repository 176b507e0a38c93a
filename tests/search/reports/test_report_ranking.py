"""Ranking of long questions: mentioned files rank first, whatever else the text has."""

import random
from itertools import islice, takewhile
from time import process_time

import numpy as np
import pytest

from cocosearchd.config.settings import SearchSettings
from cocosearchd.search.code.code_profile import load_weights, rank_chunks, score_matrix
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    compute_signal_matrix,
    make_snapshot,
)
from cocosearchd.search.lexical.scoring.corpus import join_corpora
from cocosearchd.search.lexical.segments.segment import SegmentView, build_segment
from cocosearchd.search.plan import make_plan, parse_query, split_question
from cocosearchd.search.reports.mention_signals import (
    MENTION_SIGNALS,
    MentionedFiles,
    mention_signals,
)
from cocosearchd.search.reports.report import Report, read_report
from cocosearchd.search.reports.report_signals import REPORT_SIGNALS, ReportScorer, make_scorer
from cocosearchd.search.reports.report_terms import MAX_TERMS, report_query_terms
from cocosearchd.search.reports.stack_frames import Frame
from tests.search.lexical.toy import DIMENSION, documents

FILES = {
    "src/shop/basket.py": "class Basket:\n    def add(self, item): ...\n",
    "src/shop/payment.py": "def charge_card(amount): ...\nRETRY_LIMIT = 3\n",
    "src/shop/__init__.py": "from shop.basket import Basket\n",
    "src/shop/log_format.py": 'DEFAULT_LOG_FORMAT = "%(name)s"\n',
    "tests/test_basket.py": "def test_add():\n    Basket().add(1)\n",
    "src/shop/rules.py": "def check(tag):\n    raise ValueError('attributes have to be unique here')\n",
    "docs/versions.md": "numpy scipy pandas platform python version linux\n",
}


def snapshot(files: dict[str, str] = FILES) -> IndexSnapshot:
    return make_snapshot((SegmentView(build_segment(documents(files, {}), DIMENSION)),), 1)


def paths_for(text: str, files: dict[str, str] = FILES) -> list[str]:
    state = snapshot(files)
    terms = TermCache()
    report = read_report(text)
    query = report_query_terms(report, terms)
    matrix = compute_signal_matrix(
        state,
        query,
        terms,
        report_signals=make_scorer(report, terms),
    )
    ranked = rank_chunks(score_matrix(matrix, query.is_name, load_weights()), 10)
    return list(dict.fromkeys(chunk.path for chunk in ranked))


def test_the_innermost_frame_of_the_project_is_found_first() -> None:
    trace = (
        "Something is wrong\n```\nTraceback (most recent call last):\n"
        '  File "/home/me/run.py", line 3, in <module>\n'
        '  File "/site-packages/shop/payment.py", line 9, in charge_card\n'
        "ValueError: broken\n```\n"
    )
    assert paths_for(trace)[0] == "src/shop/payment.py"


def test_in_a_bare_trace_the_innermost_frame_counts_more_than_words() -> None:
    frames = (
        "    at f (file:///srv/shop/src/shop/payment.py:2:1)\n    at main (file:///a/b.py:1:1)\n"
    )
    trace = f"TypeError: tag is no item\n{frames}"
    assert read_report(trace).is_trace
    assert paths_for(trace)[0] == "src/shop/payment.py"
    words = "The basket is wrong, and so is each item of it. " * 6
    assert not read_report(f"{trace}\n{words}").is_trace
    assert not read_report("Broken\nTypeError: no item\n").is_trace


def test_a_pasted_trace_leads_to_its_innermost_frame_and_not_to_the_longest_caller() -> None:
    """A trace of gdb has the words of the callers, above all those of the file that does most."""
    words = "program received signal segmentation fault options updates key value status write put"
    files = FILES | {
        "db/table.cc": "void Table::Add(Slice key) {\n  insert(key);\n}\n",
        "db/batch.cc": "Status Batch::Iterate(Handler handler) {\n  handler.Add(key);\n}\n",
        "db/database.cc": f"Status Database::Write(Options options) {{\n  // {words}\n}}\n" * 4,
    }
    trace = (
        "Program received signal SIGSEGV, Segmentation fault.\n"
        "#0  0x0055 in store::Table::Add (this=0x0, key=...) at db/table.cc:2\n"
        "#1  0x0056 in store::(anonymous namespace)::Inserter::Put (key=..., value=...) at db/batch.cc:2\n"
        "#2  0x0057 in store::Batch::Iterate (this=0x1, handler=0x2) at db/batch.cc:2\n"
        "#3  0x0058 in store::Database::Write (this=0x5, options=..., updates=0x1) at db/database.cc:2\n"
        "#4  0x0059 in store::Database::Put (this=0x5, options=..., key=..., value=...) at db/database.cc:5\n"
    )
    assert read_report(trace).is_pasted_trace
    assert paths_for(trace, files)[0] == "db/table.cc"
    written = f"Put crashes\n### Steps\n```\ndb.Put(options, key)\n```\n```\n{trace}```\n"
    assert read_report(written).is_trace
    assert not read_report(written).is_pasted_trace


def test_a_constant_in_code_leads_to_its_definition() -> None:
    text = "Log lines are too long\nWith\n```python\nDEFAULT_LOG_FORMAT = 'x'\n```\nnothing works\n"
    assert paths_for(text)[0] == "src/shop/log_format.py"


def test_versions_do_not_lead_to_files_about_versions() -> None:
    text = (
        "Adding an item to the basket twice fails\n### Versions\n"
        "python 3.11.2\nnumpy 1.26.1\nscipy 1.11.3\npandas 2.1.0\nplatform linux\n"
    )
    assert paths_for(text)[0] == "src/shop/basket.py"


def test_a_message_leads_to_the_place_that_says_it() -> None:
    text = (
        "Saving a tag twice fails\nThe console shows\n```\nValueError: attributes 'id' have to be "
        "unique here (5:16)\n```\nafter adding an item to the basket\n"
    )
    assert paths_for(text)[0] == "src/shop/rules.py"
    report = read_report(text)
    signals = make_scorer(report, TermCache())(snapshot().corpus)
    assert [path for path, value in zip(FILES, signals["message"], strict=True) if value] == [
        "src/shop/rules.py"
    ]


def test_a_report_about_a_failing_test_leads_to_the_code() -> None:
    text = "The test of adding to a basket fails\nRun the tests with two baskets\nand see\n"
    assert paths_for(text)[0] == "src/shop/basket.py"


def test_words_that_are_everywhere_are_no_message() -> None:
    files = {f"src/m{number}.py": "raise ValueError('no such file here')" for number in range(20)}
    report = read_report("It fails\nwith ValueError: no such file here\nand stops\n")
    assert report.messages == ("no such file here",)
    assert not make_scorer(report, TermCache())(snapshot(files).corpus)["message"].any()


def test_addresses_are_no_words_of_a_question() -> None:
    report = read_report("Broken page\nsee https://shop.example.org/basket/payment now\n")
    assert "basket" not in report.summary
    terms = report_query_terms(report, TermCache()).terms
    assert terms == report_query_terms(read_report("Broken page\nsee now\n"), TermCache()).terms
    assert read_report("https://example.org/basket\n").title == "https://example.org/basket"


def test_dotted_names_lead_to_modules_and_packages() -> None:
    names = MentionedFiles(tuple(FILES))
    paths = list(FILES)
    assert [paths[n] for n in names.find_by_module(("shop", "basket", "Basket", "add"))] == [
        "src/shop/basket.py"
    ]
    assert [paths[n] for n in names.find_by_module(("src", "shop"))] == ["src/shop/__init__.py"]
    assert names.find_by_module(("numpy", "linalg")) == []


def test_paths_are_found_by_their_longest_end() -> None:
    paths = ("a/models.py", "b/models.py", "b/views.py")
    names = MentionedFiles(paths)
    assert names.find_by_path("/srv/x/b/models.py") == [1]
    assert names.find_by_path("models.py") == [0, 1]
    assert names.find_by_path("other/models.py") == []  # one end of two: it says nothing
    assert names.find_by_path("other/views.py") == [2]  # the only file of that name


def test_a_function_is_found_in_the_file_of_its_owner() -> None:
    paths = ("db/db_impl.cc", "db/db_impl.h", "db/table.cc", "lib/Store.java", "lib/Shelf.java")
    defining = {"Write": (0, 1, 2), "put": (3, 4), "Shelf": (3,), "all": range(5)}
    names = MentionedFiles(paths, find_defining=lambda name: defining.get(name, ()))

    def path_of(frame: Frame) -> str | None:
        number = names.find_by_frame(frame)
        return None if number is None else paths[number]

    assert path_of(Frame("", 0, "Write", "DBImpl")) == "db/db_impl.cc"  # not its header
    assert path_of(Frame("", 0, "put", "Store")) == "lib/Store.java"
    assert path_of(Frame("", 0, "put", "Shelf")) is None  # named so, and defined elsewhere: two
    assert path_of(Frame("", 0, "Write", "HashMap")) is None
    assert path_of(Frame("", 0, "all", "Table")) == "db/table.cc"
    assert path_of(Frame("/srv/db/table.cc", 3, "Read")) == "db/table.cc"
    assert path_of(Frame("/other/unknown.cc", 3, "Write")) is None


def test_names_are_found_in_an_index_as_in_all_of_its_paths() -> None:
    names = ("models", "Models", "my_models", "my-models", "mymodels", "__init__", "a.b", "_models")
    folders = ("src/shop", "src/shop/basket", "lib", "lib/shop")
    files = {f"{folder}/{name}.py": "x = 1\n" for folder in folders for name in names}
    segments = [
        SegmentView(build_segment(documents(dict(part)), DIMENSION))
        for part in (islice(files.items(), 11), islice(files.items(), 11, None))
    ]
    views = (segments[0].with_deleted((0, 5)), *segments[1:])
    corpus = make_snapshot(views, 1).corpus
    every_path = MentionedFiles(corpus.live.paths)
    by_index = MentionedFiles(corpus.live.paths, corpus.find_stem)
    assert len(corpus.live.paths) == len(files) - 2
    for name in (*names, "MODELS", "missing", ""):
        assert by_index.find_by_stem(name) == every_path.find_by_stem(name)
        for path in (f"{name}.py", f"shop/{name}.py", f"/srv/lib/shop/{name}.py", f"x/{name}"):
            assert by_index.find_by_path(path) == every_path.find_by_path(path)
        for parts in (("shop", name), ("shop", "basket", name), ("lib", "shop", name, "x")):
            assert by_index.find_by_module(parts) == every_path.find_by_module(parts)
    assert by_index.find_by_module(("shop", "basket")), "a package has a file"


MENTIONING = (
    "see shop.basket and src.shop.payment here",
    "import lib.shop, basket.rules",
    "the file src/shop/rules.py and ./basket.py",
    "log_format or `payment`, `_rules`, `Basket`",
    "docs/versions.md, __init__.py, lib/shop/__init__.py",
    '```\nTraceback (most recent call last):\n  File "/a/shop/basket.py", line 1, in add\n```',
    "```\nValueError: x\n    at Basket.add(Unknown Source)\n    at charge_card (payment.py:2:1)\n```",
    "```\n#0 0x1 in Basket::add ()\n#1 0x2 in charge_card () at shop/payment.py:1\n```",
)


def test_signals_of_joined_indexes_are_those_of_each() -> None:
    rng = random.Random(4)
    pool = {
        **FILES,
        "lib/shop/__init__.py": "x = 1\n",
        "basket/rules.py": "class Basket:\n    def add(self): ...\n",
        "basket.py": "def add(): ...\n",
        "shop/_rules.py": "def charge_card(): ...\n",
        "__init__.py": "y = 1\n",
    }
    kinds = set[str]()
    for _ in range(60):
        parts = [dict(rng.sample(sorted(pool.items()), rng.randrange(1, 6))) for _ in range(5)]
        corpora = [snapshot(files).corpus for files in parts]
        text = "\n".join(["It fails", *rng.sample(MENTIONING, rng.randrange(1, 5))])
        mentions = read_report(text).mentions
        joined = mention_signals(mentions, join_corpora(corpora))
        for name in MENTION_SIGNALS:
            alone = [mention_signals(mentions, corpus)[name] for corpus in corpora]
            assert np.array_equal(joined[name], np.concatenate(alone)), (name, text)
            kinds |= {name.partition("_")[0]} if joined[name].any() else set()
    assert kinds == {"defines", "path", "stem", "frame"}


def test_signals_are_those_that_weights_may_have() -> None:
    report = read_report("Basket fails\nin shop.basket")
    signals = ReportScorer(report, TermCache().make_query_terms(report.title))(snapshot().corpus)
    assert set(signals) == REPORT_SIGNALS == MENTION_SIGNALS | {"title", "message", "linked"}
    assert all(values.shape == (len(FILES),) for values in signals.values())
    assert all(np.isfinite(values).all() and (values >= 0).all() for values in signals.values())


def test_an_empty_index_has_no_signals_to_compute() -> None:
    report = read_report("Basket fails\nin shop.basket")
    signals = ReportScorer(report, TermCache().make_query_terms(report.title))(
        make_snapshot((), 1).corpus
    )
    assert all(len(values) == 0 for values in signals.values())


def test_terms_are_bounded() -> None:
    report = read_report("many names\n" + " ".join(f"name_{number}" for number in range(5000)))
    assert len(report_query_terms(report, TermCache()).terms) == MAX_TERMS


def split(text: str) -> tuple[str, bool, bool]:
    inline, report = split_question(text)
    return inline.words, bool(inline.values), report is not None


def test_short_questions_are_no_reports() -> None:
    assert split("where is the basket") == ("where is the basket", False, False)
    assert split("lang:go\nbasket") == ("basket", True, False)
    assert split('"two\nlines"') == ("two lines", True, False)


def test_filters_of_one_line_hold_for_a_report_of_one_line() -> None:
    words, has_filters, is_report = split(f"lang:go {'it fails ' * 60}")
    assert words.startswith("it fails")
    assert has_filters
    assert is_report


@pytest.mark.parametrize(
    "line",
    [
        'level=error path:/srv/app index:3 name:web msg="no such basket" by "charge_card" ' * 5,
        '{"level": "error", "msg": "no such basket", "err": "charge_card failed"} ' * 5,
        'the basket says "no such basket", and "charge_card" is called -lang:go or -name:x ' * 5,
        '"no such basket" ' * 10_000,
    ],
)
def test_nothing_inside_of_a_long_line_is_a_filter(line: str) -> None:
    for text, filters in (
        (line, {}),
        (f"lang:go -path:vendor {line}", {"languages": ["go"], "not_paths": ["vendor"]}),
        (f'{line} lang:go path:"my dir"', {"languages": ["go"], "paths": ["my dir"]}),
    ):
        inline, report = split_question(text)
        assert inline.values == filters
        assert report is not None
        assert parse_query(text).where.phrases == ()


def test_a_long_line_in_quotation_marks_is_a_phrase() -> None:
    phrase = "the basket is empty " * 20
    inline, _ = split_question(f'lang:go "{phrase}"')
    assert inline.values == {"languages": ["go"], "phrases": [phrase.strip()]}


def test_filters_of_a_line_leave_words_that_are_no_report() -> None:
    paths = " ".join(f"path:folder/{number}" for number in range(40))
    inline, report = split_question(f'{paths} "no such basket"')
    assert len(inline.values["paths"]) == 40
    assert inline.values["phrases"] == ["no such basket"]
    assert report is None


def test_nothing_inside_of_short_lines_is_a_filter() -> None:
    text = 'charge_card fails\nname:x is index:3, "no such basket" at path:src\nin -name:x'
    inline, report = split_question(text)
    assert not inline.values
    assert report is not None
    assert split("lang:go\ncharge_card fails")[1:] == (True, False)
    assert split("charge_card fails\nlang:go")[1:] == (True, False)


def test_nothing_inside_of_several_lines_is_a_filter() -> None:
    body = 'it fails with "no such thing" at path:src -name:x\n' * 20
    assert split(body)[1:] == (False, True)
    assert split(f"a title\n{body}")[1:] == (False, True)
    words, has_filters, is_report = split(f"lang:go\n{body}")
    assert has_filters
    assert is_report
    assert "lang:go" not in words


def test_reports_with_other_parts_have_other_plans() -> None:
    first, second = (
        make_plan(parse_query(f"it fails\n```\n{code}\n```"), SearchSettings()) for code in "ab"
    )
    assert first.text == second.text == "it fails"
    assert first != second
    assert isinstance(first.report, Report)


def test_a_log_without_prose_has_a_title() -> None:
    report = read_report("ERROR save failed\nERROR again\n  at a.b.C.d(C.java:3)")
    assert report.title
    assert report.summary


def test_a_path_is_that_of_all_files_with_the_longest_common_end() -> None:
    folders = ("a", "b", "a/b", "b/a", "a/a/b", "")
    paths = [f"{folder}/{name}".lstrip("/") for folder in folders for name in ("x.py", "x.js")]
    names = MentionedFiles(paths)
    for path in (f"{start}/{path}" for start in ("q", "a", "b/b") for path in paths):
        shared = [_count_common(path, second) for second in paths]
        best = [number for number, count in enumerate(shared) if count == max(shared)]
        is_found = max(shared) > 1 or len(best) == 1
        assert names.find_by_path(path) == (best if is_found else []), path


def _count_common(first: str, second: str) -> int:
    pairs = zip(first.split("/")[::-1], second.split("/")[::-1], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def test_mentions_of_a_common_file_name_cost_little() -> None:
    names = MentionedFiles([f"p{number}/src/index.ts" for number in range(20_000)])
    names.find_by_path("src/index.ts")
    began = process_time()
    for number in range(500):
        assert names.find_by_path(f"/srv/p{number}/src/index.ts") == [number]
        assert names.find_by_module((f"p{number}", "lib", "index")) == []
    assert process_time() - began < 1.0


def test_mentions_of_a_common_path_end_cost_little() -> None:
    paths = [f"p{number}/src/index.ts" for number in range(50_000)]
    names = MentionedFiles(paths, find_defining=lambda name: [7] if name == "load" else ())
    names.find_by_path("src/index.ts")
    began = process_time()
    for number in range(500):
        assert names.find_by_path(f"/srv/q{number}/lib/index.ts") == []
        assert names.find_by_frame(Frame(f"/srv/q{number}/src/index.ts", 3)) is None
        assert names.find_by_frame(Frame(f"/srv/q{number}/src/index.ts", 3, "load")) == 7
        assert names.find_by_frame(Frame("", 0, "load", "Index")) == 7
        assert len(names.find_by_module(("src", "index"))) == 50_000
    assert process_time() - began < 1.0
