"""Every regular expression takes linear time, in modules and made of filters."""

import ast
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cocosearch_ipc.render import highlight
from cocosearchd.config.layers import expand_variables
from cocosearchd.config.settings_files import SettingEntry
from cocosearchd.errors import InvalidInput
from cocosearchd.filters.globs import (
    MAX_GLOB,
    Matcher,
    longest_literal,
    path_matcher,
    symbol_matcher,
)
from cocosearchd.languages.language_table import languages
from cocosearchd.languages.patterns.comments import (
    extract_comments,
    extract_local_comments,
    find_comment_spans,
)
from cocosearchd.languages.patterns.delimited_text import Enclosure, SpanFinder, TextSpan
from tests.hostile import expressions

REPOSITORY = Path(__file__).parents[2]
# Linear work on a text of 1 MiB takes less, on a slow and busy machine too; quadratic work on a
# quarter takes minutes.
MIB, WITHIN_S = 1 << 20, 20.0
# Functions that use an expression which no module holds, and why nobody can make it cost much.
INSIDE_FUNCTIONS = {
    "watching/ignore/patterns.py _matcher": "rules of ignore files, tests/hostile/test_ignore_patterns.py",
    "languages/patterns/delimited_text.py __init__": "marks of comment styles, attacked below",
    "search/lexical/scoring/symbol_filter.py _find_names_with": "an escaped text",
    "config/settings.py _camel_case": "a key of our own settings",
    "store/server/binaries.py _has_pgvector": "a file of PostgreSQL",
    "store/server/embedded.py _does_not_start": "the log of PostgreSQL",
    "filters/globs.py _literal": "one character at a time",
    "filters/glob_automaton.py _add": "one character at a time",
    "filters/globs.py _atomic_regex": "a set of characters",
    "filters/globs.py path_matcher": "tests/hostile/test_globs.py",
    "filters/globs.py symbol_matcher": "tests/hostile/test_globs.py",
    "store/index_records.py slug_candidates": "one class of characters",
    "store/connection/preflight.py _ensure_pgvector": "a version that PostgreSQL tells",
    "cli/setup/install.py _indent": "a person's own settings of a client",
    "cli/setup/install.py _edit_toml": "a person's own settings of a client",
    "cli/parser.py error": "our own message",
    "render/visible.py _hidden": "a set of characters",
    "render/highlight.py _tokens": "_pattern, attacked below",
    "render/highlight.py name_pattern": "escaped names",
    "render/highlight.py term_pattern": "escaped words",
    "repl/code_colours.py lines": "a line end",
    "search/grep/line_matching.py __init__": "an escaped text",
    "api/verbs/references.py _find_column": "an escaped name",
}


@pytest.fixture(scope="module")
def reports() -> list[dict[str, str]]:
    """Attack every expression, in one process of its own: to load all modules takes seconds."""
    return attack()


@pytest.mark.timeout(400)
def test_every_expression_is_linear(reports: list[dict[str, str]]) -> None:
    assert len(reports) > 150
    assert [report for report in reports if "cause" in report] == []


@pytest.mark.slow
@pytest.mark.timeout(3700)
def test_every_expression_is_linear_under_many_attacks() -> None:
    assert [report for report in attack("--long") if "cause" in report] == []


def attack(*options: str) -> list[dict[str, str]]:
    """Attack all expressions: a report for each name, and one for each attack that it falls to."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.hostile.expressions", *options],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=3600, check=True,
    )  # fmt: skip
    names, *reports = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {report["name"] for report in reports} == set(names), "each expression is attacked"
    return reports


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:[\w*]+[ \t]+[*&]*)*\(",
        r"(a+)+b",
        r"/\*[\s\S]*?\*/",
        r"[\d.]+$",
        r"(?:^| +)#.*",
        r"\s*\n\s*",
        r"(a|b|ab)*c",
    ],
)
def test_the_attacks_find_what_is_not_linear(pattern: str) -> None:
    program = (
        "import re, signal, sys\nfrom tests.hostile import expressions\n"
        "signal.signal(signal.SIGPROF, expressions._stop)\n"
        "expressions.LIMIT_S = 0.2\n"  # linear work on these texts takes milliseconds
        "pattern = re.compile(sys.argv[1])\n"
        "run = lambda text: sum(1 for _ in pattern.finditer(text))\n"
        "attacks = expressions.attacks(pattern, expressions.SHORT)\n"
        "print(any(expressions.growth(run, attack, str) for attack in attacks))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, pattern],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert ran.stdout.strip() == "True"


@pytest.mark.timeout(400)
def test_expressions_are_found_in_tables_methods_and_objects(reports: list[dict[str, str]]) -> None:
    names = {report["name"] for report in reports}
    assert "cocosearchd.languages.identifiers._IS_DENSE" in names  # a bound method
    # rules of the rows of a table
    assert "cocosearchd.languages.language_table._LANGUAGES[0]" in names
    assert any(name.endswith(".STRUCTURES[0]") for name in names)  # pairs in a table
    assert any(name.startswith("cocosearch_ipc.") for name in names)


def test_an_expression_is_in_a_module_or_listed() -> None:
    met = set(_functions_with_expressions())
    listed = {tuple(line.split()) for line in INSIDE_FUNCTIONS}
    assert {f"{file} {name}" for file, name in met if not _is_listed(file, name, listed)} == set()
    gone = {
        line for line in listed if not any(_is_listed(file, name, {line}) for file, name in met)
    }
    assert gone == set()  # such a line would hide the next one of that name


def _is_listed(file: str, name: str, places: set[tuple[str, ...]]) -> bool:
    return any(file.endswith(end) and name == function for end, function in places)


def _functions_with_expressions() -> Iterator[tuple[str, str]]:
    for root in expressions.ROOTS:
        for path in root.rglob("*.py"):
            text = path.read_text("utf-8")
            for function in ast.walk(ast.parse(text)) if "re." in text else ():
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                    map(_uses_re, ast.walk(function))
                ):
                    yield str(path), function.name


def _uses_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
        and node.attr
        in {
            "compile",
            "search",
            "match",
            "fullmatch",
            "sub",
            "subn",
            "split",
            "findall",
            "finditer",
        }
    )


def _match_long_name(matches: Matcher) -> object:
    return matches("a" * 2600 + "!")


MADE: dict[str, Callable[[int], object]] = {
    "sets of a glob": lambda size: path_matcher(["[" * MAX_GLOB]),
    "stars of a glob": lambda size: _match_long_name(path_matcher(["*a" * 60 + "b"])),
    "wide stars of a glob": lambda size: _match_long_name(path_matcher(["**a" * 60 + "b"])),
    "stars and sets of a glob": lambda size: _match_long_name(path_matcher(["*[!b]" * 60 + "b"])),
    "stars of a symbol": lambda size: _match_long_name(symbol_matcher("*a" * 60 + "b")),
    "spelled out": lambda size: longest_literal("[" * MAX_GLOB),
    "defaults of settings": lambda size: list(
        expand_variables([SettingEntry("a", "${a:-" * (size // 5), "place")], lambda name: None)
    ),
    "comments that nothing ends": lambda size: extract_comments("/*" * (size // 2), "c"),
    "two kinds of comments": lambda size: find_comment_spans(
        '"""\'\'\'"' + "'''" * (size // 3), "python"
    ),
    "two kinds of comments of Lua": lambda size: extract_local_comments(
        "{---[[" * (size // 6), "lua"
    ),
    "comments of Ruby": lambda size: extract_comments("\n=begin" * (size // 7), "ruby"),
    "comments in colour": lambda size: highlight.lines("/*" * (size // 2), "c"),
    "quotes in colour": lambda size: highlight.lines('\\"' * (size // 2), "python"),
    "long texts in colour": lambda size: highlight.lines("'''\"\"\"" * (size // 6) + '"', "python"),
}


@pytest.mark.parametrize("size", [MIB // 4, pytest.param(MIB, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", MADE)
def test_a_mebibyte_takes_seconds(case: str, size: int) -> None:
    began = time.process_time()
    MADE[case](size)
    assert time.process_time() - began < WITHIN_S * size / MIB


STYLES = {info.comments: info.name for info in languages()}


@pytest.mark.parametrize("language", sorted(STYLES.values()))
def test_marks_of_comments_take_seconds(language: str) -> None:
    style = next(style for style, name in STYLES.items() if name == language)
    marks = [*style.line_marks, *style.leading_marks]
    marks += [mark for pair in style.enclosures for mark in (pair.opener, pair.closer)]
    size = MIB // 32
    began = time.process_time()
    for pump in (*marks, *(f"\n{mark}" for mark in marks), " ", "\n", "".join(marks) or "x"):
        extract_comments(pump * (size // len(pump)), language)
        extract_local_comments(pump * (size // len(pump)), language)
    assert time.process_time() - began < WITHIN_S


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("/* a */ b // c\n/* d", ["/* a */", "// c"]),
        ("/* // a */ // /* b */", ["/* // a */", "// /* b */"]),
        ("/*/ a */", ["/*/ a */"]),
        ("/* a\n// b\n", ["// b"]),  # what nothing ends begins nothing
        ("a//b", []),
    ],
)
def test_comments_are_found_as_they_stand(text: str, spans: list[str]) -> None:
    assert [text[start:end] for start, end in find_comment_spans(text, "c")] == spans


@pytest.mark.parametrize(
    ("text", "language", "spans"),
    [
        ("'''a\"\"\"b'''\"\"\"c\n# d", "python", ["'''a\"\"\"b'''", "# d"]),
        ("--[[ a ]] b\n -- c ]]", "lua", ["--[[ a ]]", "-- c ]]"]),
        ("{- b\n -- c -}", "haskell", ["{- b\n -- c -}"]),
        ("--[[ a", "lua", ["--[[ a"]),  # the rest of the line
        ("=begin\na\n=end\nx =begin\n=end # b", "ruby", ["=begin\na\n=end", "# b"]),
    ],
)
def test_comments_of_other_languages(text: str, language: str, spans: list[str]) -> None:
    assert [text[start:end] for start, end in find_comment_spans(text, language)] == spans


def test_enclosures_alone() -> None:
    quotes = Enclosure("<", ">")
    assert SpanFinder([quotes]).spans("a <b> <c") == [TextSpan(2, 5, quotes)]


def test_unclosed_defaults_are_left() -> None:
    entries = expand_variables(
        [SettingEntry("a", "${b} ${c:-d} ${e:-${f", "place")], {"b": "1"}.get
    )
    assert [entry.value for entry in entries] == ["1 d ${e:-${f"]


def test_a_glob_is_no_longer_than_a_path_can_be() -> None:
    with pytest.raises(InvalidInput, match="16385 characters"):
        path_matcher(["*" * (MAX_GLOB + 1)])
