"""The architecture as a test: imports between units, allowed libraries, names, and sizes.

The tables are the layer diagram of ARCHITECTURE.md in a form that fails.
Changing a table is a decision about the architecture: change the document in the same commit.
"""

import ast
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, wraps
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOMES = {"cocosearchd": ROOT / "daemon", "cocosearch_ipc": ROOT / "ipc"}
SOURCES = sorted(path for top, home in HOMES.items() for path in (home / top).rglob("*.py"))

# Unit -> our other units it may import. A unit is a module or folder right below an import package.
# A new unit needs a row here first. `service` is absent on purpose: it wires, so it alone sees
# everything.
WIRING = "cocosearchd.service"
MAY_IMPORT: dict[str, set[str]] = {
    "cocosearchd": set(),
    "cocosearchd.__main__": {
        WIRING,
        "cocosearchd.api",
        "cocosearchd.config",
        "cocosearchd.runtime",
        "cocosearch_ipc.address",
        "cocosearch_ipc.failure",
        "cocosearch_ipc.render",
    },
    "cocosearchd.api": {
        "cocosearchd.config",
        "cocosearchd.embedding",
        "cocosearchd.filters",
        "cocosearchd.graph",
        "cocosearchd.indexes",
        "cocosearchd.indexing",
        "cocosearchd.languages",
        "cocosearchd.runtime",
        "cocosearchd.search",
        "cocosearchd.store",
        "cocosearchd.watching",
        "cocosearch_ipc.address",
        "cocosearch_ipc.failure",
        "cocosearch_ipc.graph_protocol",
        "cocosearch_ipc.graph_vocabulary",
        "cocosearch_ipc.protocol",
        "cocosearch_ipc.render",
        "cocosearch_ipc.structure_protocol",
        "cocosearch_ipc.trust",
        "cocosearch_ipc.workspace_protocol",
    },
    "cocosearchd.indexes": {
        "cocosearchd.config",
        "cocosearchd.embedding",
        "cocosearchd.graph",
        "cocosearchd.indexing",
        "cocosearchd.runtime",
        "cocosearchd.search",
        "cocosearchd.store",
        "cocosearchd.watching",
    },
    "cocosearchd.search": {
        "cocosearchd.config",
        "cocosearchd.embedding",
        "cocosearchd.filters",
        "cocosearchd.languages",
        "cocosearchd.runtime",
        "cocosearchd.sandbox",
        "cocosearchd.store",
    },
    "cocosearchd.indexing": {
        "cocosearchd.config",
        "cocosearchd.embedding",
        "cocosearchd.languages",
        "cocosearchd.runtime",
        "cocosearchd.sandbox",
        "cocosearchd.store",
    },
    # The scope must know which file types are supported at all.
    "cocosearchd.watching": {
        "cocosearchd.config",
        "cocosearchd.languages",
        "cocosearchd.runtime",
        "cocosearchd.store",
    },
    "cocosearchd.graph": {
        "cocosearchd.filters",
        "cocosearchd.languages",
        "cocosearchd.runtime",
        "cocosearchd.store",
        "cocosearch_ipc.graph_vocabulary",
    },
    "cocosearchd.store": {"cocosearchd.config", "cocosearchd.filters", "cocosearchd.runtime"},
    "cocosearchd.filters": {"cocosearchd.languages"},
    "cocosearchd.embedding": {"cocosearchd.config", "cocosearchd.runtime"},
    "cocosearchd.languages": set(),
    "cocosearchd.sandbox": {"cocosearchd.runtime", "cocosearch_ipc.error_codes"},
    "cocosearchd.config": {"cocosearchd.runtime"},
    "cocosearchd.runtime": {"cocosearch_ipc.http", "cocosearch_ipc.trust"},
    "cocosearchd.model": set(),
    "cocosearchd.forms": set(),
    "cocosearchd.exclusion": set(),
    "cocosearchd.errors": {"cocosearch_ipc.error_codes", "cocosearch_ipc.failure"},
    "cocosearchd.freshness": set(),
    "cocosearch_ipc": set(),
    "cocosearch_ipc.error_codes": set(),
    "cocosearch_ipc.failure": {"cocosearch_ipc.error_codes"},
    "cocosearch_ipc.protocol": set(),
    "cocosearch_ipc.workspace_protocol": {"cocosearch_ipc.protocol"},
    "cocosearch_ipc.graph_vocabulary": set(),
    "cocosearch_ipc.graph_protocol": {"cocosearch_ipc.graph_vocabulary", "cocosearch_ipc.protocol"},
    "cocosearch_ipc.structure_protocol": {
        "cocosearch_ipc.graph_protocol",
        "cocosearch_ipc.graph_vocabulary",
    },
    "cocosearch_ipc.address": set(),
    "cocosearch_ipc.client": set(),
    "cocosearch_ipc.request_id": set(),
    "cocosearch_ipc.spans": set(),
    "cocosearch_ipc.page": set(),
    "cocosearch_ipc.render": set(),
    "cocosearch_ipc.trust": {
        "cocosearch_ipc.error_codes",
        "cocosearch_ipc.failure",
        "cocosearch_ipc.render",
    },
    "cocosearch_ipc.rpc": {
        "cocosearch_ipc.error_codes",
        "cocosearch_ipc.failure",
        "cocosearch_ipc.graph_protocol",
        "cocosearch_ipc.protocol",
        "cocosearch_ipc.request_id",
        "cocosearch_ipc.spans",
        "cocosearch_ipc.structure_protocol",
        "cocosearch_ipc.workspace_protocol",
    },
    "cocosearch_ipc.mcp": {
        "cocosearch_ipc.error_codes",
        "cocosearch_ipc.failure",
        "cocosearch_ipc.graph_protocol",
        "cocosearch_ipc.protocol",
        "cocosearch_ipc.render",
        "cocosearch_ipc.request_id",
        "cocosearch_ipc.rpc",
        "cocosearch_ipc.structure_protocol",
        "cocosearch_ipc.workspace_protocol",
    },
    "cocosearch_ipc.http": {
        "cocosearch_ipc.address",
        "cocosearch_ipc.client",
        "cocosearch_ipc.error_codes",
        "cocosearch_ipc.failure",
        "cocosearch_ipc.mcp",
        "cocosearch_ipc.page",
        "cocosearch_ipc.protocol",
        "cocosearch_ipc.request_id",
        "cocosearch_ipc.rpc",
        "cocosearch_ipc.trust",
    },
    "cocosearch_ipc.cli": {
        "cocosearch_ipc.address",
        "cocosearch_ipc.client",
        "cocosearch_ipc.error_codes",
        "cocosearch_ipc.failure",
        "cocosearch_ipc.graph_vocabulary",
        "cocosearch_ipc.protocol",
        "cocosearch_ipc.render",
        "cocosearch_ipc.trust",
    },
    "cocosearch_ipc.repl": {
        "cocosearch_ipc.address",
        "cocosearch_ipc.cli",
        "cocosearch_ipc.client",
        "cocosearch_ipc.render",
    },
}
# Every unit of the daemon may import these; no unit of ipc may, but `spans`.
LEAVES = {
    "cocosearchd.model",
    "cocosearchd.forms",
    "cocosearchd.exclusion",
    "cocosearchd.errors",
    "cocosearchd.freshness",
    "cocosearch_ipc.spans",
}
# Rooms within a unit that know nothing of their neighbours: room -> rooms of its unit that it must
# not import.
CLOSED_ROOMS = {
    "cocosearchd.indexing.pipeline": {"indexer", "coordinator", "pool"},
    "cocosearchd.indexing.pool": {"indexer", "coordinator"},
    "cocosearchd.indexing.indexer": {"coordinator"},
    "cocosearchd.indexing.coordinator": {"indexer", "pipeline", "pool"},
    "cocosearchd.search.lexical": {"code", "classic", "answers"},
    "cocosearchd.search.classic": {"code", "answers"},
    "cocosearchd.store.chunks": {"reads"},
    "cocosearchd.store.server": {"chunks", "reads"},
    "cocosearchd.watching.hints": {"ignore", "git", "availability"},
    "cocosearchd.watching.git": {"ignore", "hints", "availability"},
}

# Third-party package -> the one place that may import it.
ONLY_IN = {
    "cocoindex": "cocosearchd.indexing",
    "psycopg": "cocosearchd.store",
    "psycopg_pool": "cocosearchd.store",
    "pgvector": "cocosearchd.store",
    "watchfiles": "cocosearchd.watching.hints",
    "inotify_simple": "cocosearchd.watching.hints",
    "tree_sitter": "cocosearchd.languages",
    "re2": "cocosearchd.search.grep",
    "spacy": "cocosearchd.search.classic.rerankers.spacy",
    "httpx": "cocosearchd.embedding",
    "ollama": "cocosearchd.embedding.providers.ollama",
    "onnxruntime": "cocosearchd.embedding.providers.onnx",
    "tokenizers": "cocosearchd.embedding.providers.onnx",
    "sentence_transformers": "cocosearchd.embedding.providers.sentence_transformers",
    "fastmcp": "cocosearch_ipc.mcp",
    "mcp": "cocosearch_ipc.mcp",
    "starlette": "cocosearch_ipc.http.app",
    "uvicorn": "cocosearch_ipc.http.serve",
    "prompt_toolkit": "cocosearch_ipc.repl",
    "pygments": "cocosearch_ipc.repl",
    "structlog": "cocosearchd.runtime.logs",
    "yaml": "cocosearchd.config.settings_files",
    "dotenv": "cocosearchd.config.settings_files",
    "psutil": "cocosearchd.runtime.process_resources",
    "Stemmer": "cocosearchd.languages",
    "tree_sitter_language_pack": "cocosearchd.languages",
}
NEVER = {
    "asyncpg": "psycopg is the one driver",
    "daemon": "import cocosearchd",
    "ipc": "import cocosearch_ipc",
}
# What `cocosearchctl` loads: the standard library, so that it starts in milliseconds.
STDLIB_ONLY = {
    "cocosearch_ipc.failure",
    "cocosearch_ipc.protocol",
    "cocosearch_ipc.workspace_protocol",
    "cocosearch_ipc.graph_protocol",
    "cocosearch_ipc.graph_vocabulary",
    "cocosearch_ipc.structure_protocol",
    "cocosearch_ipc.address",
    "cocosearch_ipc.client",
    "cocosearch_ipc.request_id",
    "cocosearch_ipc.spans",
    "cocosearch_ipc.page",
    "cocosearch_ipc.trust",
    "cocosearch_ipc.render",
    "cocosearch_ipc.cli",
}
# Pure: values in, values out. No clock, no disk, no network, no event loop.
PURE = {
    "cocosearchd.filters",
    "cocosearchd.languages",
    "cocosearchd.indexing.pipeline.chunker",
    "cocosearchd.indexing.pipeline.cut_points",
    "cocosearchd.search.plan",
    "cocosearchd.search.classic.fusion",
    "cocosearchd.search.scored_candidates",
    "cocosearchd.search.lexical.ranking_signals",
}
IMPURE = {"asyncio", "anyio", "os", "pathlib", "socket", "subprocess", "tempfile", "time"}

# Habits, and the files that have a reason to differ.
ENVIRON_IN = {
    "cocosearchd.runtime.watchdog_process",  # counts restarts there, for the daemon that it becomes
    "cocosearchd.config.settings",
    "cocosearch_ipc.address",
    "cocosearchd.indexing",
    "cocosearchd",
    # gives git a few of its variables, and none of the others
    "cocosearchd.watching.git.git_command",
}
EFFECT_IN_INIT = {
    "cocosearchd.indexing",  # turns CocoIndex's telemetry off before CocoIndex can be imported
    # keeps OpenBLAS to one thread, and looks for garbage seldom, before modules are imported
    "cocosearchd",
}
PRINT_IN = {"cocosearch_ipc.render"}
# Log and restart; log and reply; log and end one session of many.
BROAD_EXCEPT_IN = {
    "cocosearchd.runtime.supervise",
    "cocosearch_ipc.rpc.dispatcher",
    "cocosearch_ipc.http.serve",
}
LATE_IMPORT_IN = {
    # MCP's libraries cost a second of CPU: the daemon answers before they are loaded
    "cocosearch_ipc.http.app",
    # settings that cannot be read are refused before a second's worth of modules is loaded
    "cocosearchd.__main__",
    "cocosearch_ipc.cli.main",  # the hot path does not pay for argparse
    "cocosearch_ipc.cli.daemon_calls",  # nor for asking the service manager, unless nothing comes
    "cocosearch_ipc.cli.running.status_verb",  # only `--open` needs HTTP
    "cocosearchd.search.classic.rerankers.spacy",  # optional extra
}
# Names that say nothing of their value: a variable is a noun that says what it holds.
PRONOUNS = {
    *("found", "known", "given", "wanted", "made", "one", "some", "asked", "each", "taken", "kept"),
    *("shown", "told", "seen", "meant", "left", "held", "named", "others", "other", "place", "now"),
    *("before", "why", "here", "there", "both", "whole", "apart", "own", "several"),
}
# The good uses: `now` is a time, and a field of the protocol keeps its name.
GOOD_PRONOUNS = {
    "cocosearchd.watching.scans.scan_schedule": {"now"},
    "cocosearchd.watching.git.checkout_hold": {"now"},
    "cocosearchd.watching.dirty_set": {"now"},
    "cocosearch_ipc.http.connection_slots": {"now"},
    "cocosearch_ipc.mcp.root_policy": {"own"},
    "cocosearch_ipc.workspace_protocol": {"place"},
}
# Names that say neither what a function does nor what it returns.
HALF_NAMES = {
    *(
        "above",
        "agreed",
        "alone",
        "also",
        "asked",
        "at",
        "below",
        "by",
        "coming",
        "either",
        "found",
    ),
    *("from", "given", "gone", "held", "here", "how", "in", "inside", "known", "made", "missing"),
    *("near", "never", "nowhere", "one", "others", "outside", "same", "told", "unknown", "with"),
    *("within", "without"),
}
# Code that tests parse and index.
SAMPLES = (ROOT / "tests" / "languages" / "cases", ROOT / "tests" / "quality" / "corpus")
TEST_SOURCES = sorted(
    path
    for folder in ("tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if not any(path.is_relative_to(samples) for samples in SAMPLES)
)
GIT_IN = "cocosearchd.watching.git.git_command"
MAX_FUNCTION_LINES = 60  # of the body: signatures of MCP tools describe each parameter
MAX_COMPLEXITY = 10  # decisions of a function, plus one
MAX_COMPLEX_FUNCTIONS = 31  # with more; lower it when some are split, and never raise it
MAX_PUBLIC_METHODS = 15
MAX_POSITIONAL_ARGUMENTS = 7
MAX_MODULES_IN_ROOM = 13
# Names that several rooms may use: the file that each room begins with.
SHARED_NAMES = {"__init__", "__main__", "base"}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def module_name(path: Path) -> str:
    home = next(home for home in HOMES.values() if path.is_relative_to(home))
    return ".".join(path.relative_to(home).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in SOURCES}


def unit(name: str) -> str:
    """`cocosearchd.search.query_cache` -> `cocosearchd.search`: what the rows of MAY_IMPORT speak
    of.
    """
    return ".".join(name.split(".")[:2])


def under(name: str, room: str) -> bool:
    return name == room or name.startswith(room + ".")


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted targets, `from a import b` as `a.b`. Late and type-only imports count: they are arrows
    too.
    """
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, (
                f"line {node.lineno}: absolute imports only, they can be searched for"
            )
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def syntax_tree(path: Path) -> ast.Module:
    """Return the tree of a file, parsed once for all tests."""
    return ast.parse(path.read_text("utf-8"), str(path))


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return a tree and all nodes below it, walked once for all tests."""
    return tuple(ast.walk(tree))


def parsed(path: Path) -> tuple[str, ast.Module]:
    """Return the name and the tree of a module."""
    return module_name(path), syntax_tree(path)


def every_module(check: Callable[[Path], None]) -> Callable[[], None]:
    """Make one test of a check of a module: a test for each would take most of its time to begin."""

    @wraps(check)
    def test() -> None:
        failures = list[str]()
        for path in SOURCES:
            try:
                check(path)
            except AssertionError as failure:
                failures.append(f"{module_name(path)}: {failure}")
        assert not failures, "\n".join(failures)

    del test.__wrapped__  # pytest would ask for its arguments
    return test


def test_sources_are_where_we_look() -> None:
    for top, home in HOMES.items():
        assert top in MODULES, f"no import package {top} in {home}"
        assert not list(home.glob("*.py")), (
            f"{home.name}/ is a folder, not a package: code belongs in {top}"
        )


@every_module
def test_arrows_point_down(path: Path) -> None:
    me, tree = parsed(path)
    assert unit(me) == WIRING or unit(me) in MAY_IMPORT, f"{unit(me)} needs a row in MAY_IMPORT"
    leaves = LEAVES if under(me, "cocosearchd") else set()
    for target in imports(tree):
        if target.split(".")[0] in HOMES and unit(me) != WIRING:
            allowed = MAY_IMPORT[unit(me)] | leaves | {unit(me)}
            assert unit(target) in allowed, f"{unit(me)} may not import {unit(target)}"


@every_module
def test_rooms_stay_closed(path: Path) -> None:
    me, tree = parsed(path)
    for room, closed in CLOSED_ROOMS.items():
        if under(me, room):
            siblings = {f"{unit(room)}.{name}" for name in closed}
            for target in imports(tree):
                assert not any(under(target, sibling) for sibling in siblings), (
                    f"{room} may not import {target}"
                )


def test_module_names_are_unique() -> None:
    names = Counter(path.stem for path in SOURCES if path.stem not in SHARED_NAMES)
    assert {name for name, count in names.items() if count > 1} == set()


def test_class_names_have_one_meaning() -> None:
    """A class name occurs once, private ones too; front ends may name what the daemon names."""
    names = Counter(
        (path.is_relative_to(HOMES["cocosearchd"]), node.name)
        for path in SOURCES
        for node in nodes(parsed(path)[1])
        if isinstance(node, ast.ClassDef)
    )
    assert {name for (_, name), count in names.items() if count > 1} == set()


def variables(tree: ast.AST) -> set[str]:
    """Return the names that a tree binds: arguments and targets of assignments."""
    names = {node.arg for node in nodes(tree) if isinstance(node, ast.arg)}
    return names | {
        node.id
        for node in nodes(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


@every_module
def test_variables_say_what_they_hold(path: Path) -> None:
    me, tree = parsed(path)
    pronouns = variables(tree) & PRONOUNS - GOOD_PRONOUNS.get(me, set())
    assert not pronouns, f"{me} has variables without a meaning: {sorted(pronouns)}"


@every_module
def test_functions_say_what_they_do(path: Path) -> None:
    me, tree = parsed(path)
    names = {
        node.name.strip("_")
        for node in nodes(tree)
        if isinstance(node, FUNCTIONS) and not node.name.endswith("__") and not _is_property(node)
    }
    assert not names & HALF_NAMES, f"{me}: {sorted(names & HALF_NAMES)}"


def test_variables_of_tests_say_what_they_hold() -> None:
    pronouns = {
        str(path.relative_to(ROOT)): sorted(names)
        for path in TEST_SOURCES
        if (names := variables(syntax_tree(path)) & PRONOUNS - {"now"})
    }
    assert pronouns == {}


def test_docstrings_begin_with_what_they_describe() -> None:
    """A first line is understood without the body: it is no riddle that begins with a relative."""
    openings = re.compile(r"(Of|What|Whether|Whose|Who|Which|As|How|So)\b")
    riddles = [
        f"{path.relative_to(ROOT)}, line {getattr(node, 'lineno', 1)}"
        for path in (*SOURCES, *TEST_SOURCES)
        for node in nodes(syntax_tree(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and openings.match(ast.get_docstring(node) or "")
    ]
    assert riddles == []


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    """Those of MCP resources are texts for clients, which name what there is."""
    nouns = re.compile(r"(The|A|An|All|Every|Each|One|True|False|None|Its?|Those|These|Status)\b")
    openings = [
        f"{path.relative_to(ROOT)}, line {node.lineno}"
        for path in SOURCES
        if module_name(path) != "cocosearch_ipc.mcp.resources"
        for node in nodes(syntax_tree(path))
        if isinstance(node, FUNCTIONS)
        and not (_is_property(node) or node.name == "__init__")
        and nouns.match(ast.get_docstring(node) or "")
    ]
    assert openings == []


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_first_paragraphs_of_docstrings_are_sentences() -> None:
    docstrings = {
        f"{path.relative_to(ROOT)}, line {getattr(node, 'lineno', 1)}": ast.get_docstring(node)
        for path in SOURCES
        for node in nodes(syntax_tree(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    unended = [
        line
        for line, docstring in docstrings.items()
        if docstring and docstring.partition("\n\n")[0].rstrip()[-1] not in ".:?!"
    ]
    assert unended == []


def test_rooms_are_small() -> None:
    rooms = Counter(path.parent for path in SOURCES if path.stem != "__init__")
    crowded = {str(room): count for room, count in rooms.items() if count > MAX_MODULES_IN_ROOM}
    assert crowded == {}, "a folder with more modules is two folders"


def test_no_arrow_is_without_an_import() -> None:
    used = {
        (unit(me), unit(target)) for me, tree in map(parsed, SOURCES) for target in imports(tree)
    }
    arrows = {(me, target) for me, targets in MAY_IMPORT.items() for target in targets}
    assert not arrows - used, "an arrow that nothing uses is a false map"
    assert MAY_IMPORT.keys() <= set(map(unit, MODULES)), "a row of a unit that is gone"


@every_module
def test_third_parties_have_one_home(path: Path) -> None:
    me, tree = parsed(path)
    for target in imports(tree):
        top = target.split(".")[0]
        assert top not in NEVER, f"{top} is never imported: {NEVER[top]}"
        assert under(me, ONLY_IN.get(top, me)), f"only {ONLY_IN[top]} may import {top}"
        if unit(me) in STDLIB_ONLY:
            assert top in sys.stdlib_module_names or top in HOMES, (
                f"{me} is stdlib only, so no {top}"
            )


@every_module
def test_pure_code_is_pure(path: Path) -> None:
    me, tree = parsed(path)
    if not any(under(me, room) for room in PURE):
        return
    for target in imports(tree):
        top = target.split(".")[0]
        # What a thread has computed is no clock: it bounds a parse, on a busy machine as on an idle
        # one.
        fine = target.startswith("pathlib.Pure") or target == "time.thread_time"
        assert top not in IMPURE or fine, f"{me} is pure, so no {target}"
    assert not any(isinstance(node, ast.AsyncFunctionDef) for node in nodes(tree)), (
        f"{me} is pure, so no async"
    )


@every_module
def test_packages_are_signposts(path: Path) -> None:
    me, tree = parsed(path)
    if path.name != "__init__.py":
        return
    assert ast.get_docstring(tree), f"{me} needs a docstring: what is here, what is not"
    assert len(tree.body) == 1 or me in EFFECT_IN_INIT, f"{me}: a docstring and nothing else"


def late_imports(tree: ast.AST) -> Iterator[int]:
    for function in nodes(tree):
        if isinstance(function, FUNCTIONS):
            yield from (
                n.lineno for n in nodes(function) if isinstance(n, ast.Import | ast.ImportFrom)
            )


def named(node: ast.AST | None) -> set[str]:
    return {n.id for n in nodes(node) if isinstance(n, ast.Name)} if node else {"bare"}


@every_module
def test_habits(path: Path) -> None:
    me, tree = parsed(path)
    assert me in LATE_IMPORT_IN or not list(late_imports(tree)), (
        f"late import, line {next(late_imports(tree))}"
    )
    for node in nodes(tree):
        where = f"{me}, line {getattr(node, 'lineno', 0)}"
        assert not isinstance(node, ast.Global), f"{where}: no `global`, no state in modules"
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"):
            assert me in ENVIRON_IN, (
                f"{where}: settings are passed in; only {sorted(ENVIRON_IN)} see the environment"
            )
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print" or me in PRINT_IN, (
                f"{where}: only {sorted(PRINT_IN)} may print"
            )
        if isinstance(node, ast.ExceptHandler) and named(node.type) & {
            "bare",
            "Exception",
            "BaseException",
        }:
            assert me in BROAD_EXCEPT_IN, f"{where}: catch what you can name"
    assert me in ENVIRON_IN or not {"os.environ", "os.getenv"} & set(imports(tree)), (
        f"{me}: environment"
    )


@every_module
def test_git_is_started_in_one_place(path: Path) -> None:
    """A repository's configuration can name programs: only the module that shuts it out may start
    git.
    """
    me, tree = parsed(path)
    if me == GIT_IN:
        return
    for node in nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            words = os.fsencode(node.value).split()
            assert words[:1] != [b"git"] or len(words) > 2, (
                f"{me}, line {node.lineno}: git is run by {GIT_IN} alone"
            )


@every_module
def test_sizes(path: Path) -> None:
    me, tree = parsed(path)
    for node in nodes(tree):
        if isinstance(node, FUNCTIONS):
            length = body_lines(node)
            assert length <= MAX_FUNCTION_LINES, f"{me}.{node.name} has {length} lines"


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a body, without functions that are defined in it."""
    nested = [
        node for node in nodes(function) if isinstance(node, FUNCTIONS) and node is not function
    ]
    inner = {
        line for node in nested for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = range(function.body[0].lineno, (function.end_lineno or function.lineno) + 1)
    return len(set(lines) - inner)


def test_few_functions_are_complex() -> None:
    complex_functions = sorted(
        (complexity(node), f"{module_name(path)}.{node.name}")
        for path in SOURCES
        for node in nodes(parsed(path)[1])
        if isinstance(node, FUNCTIONS) and complexity(node) > MAX_COMPLEXITY
    )
    assert len(complex_functions) <= MAX_COMPLEX_FUNCTIONS, complex_functions


def complexity(function: ast.AST) -> int:
    """Return the cyclomatic complexity, with comprehensions and boolean operators, as radon does."""
    return 1 + sum(map(count_decisions, nodes(function)))


def count_decisions(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.For | ast.AsyncFor | ast.While):
        return 1 + bool(node.orelse)
    if isinstance(node, ast.Try):
        return len(node.handlers) + bool(node.orelse)
    return isinstance(node, ast.If | ast.IfExp | ast.Assert | ast.match_case)


@every_module
def test_classes_are_small(path: Path) -> None:
    me, tree = parsed(path)
    for node in nodes(tree):
        if isinstance(node, ast.ClassDef):
            names = {item.name for item in node.body if isinstance(item, FUNCTIONS)}
            public = [name for name in names if not name.startswith("_")]
            assert len(public) <= MAX_PUBLIC_METHODS, f"{me}.{node.name}: {sorted(public)}"


@every_module
def test_long_calls_name_their_arguments(path: Path) -> None:
    me, tree = parsed(path)
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            assert len(node.args) <= MAX_POSITIONAL_ARGUMENTS, f"{me}, line {node.lineno}"


def test_no_import_cycles() -> None:
    def resolve(target: str) -> str | None:
        while target and target not in MODULES:
            target = target.rpartition(".")[0]
        return target or None

    graph = {
        me: {resolve(target) for target in imports(parsed(path)[1])} for me, path in MODULES.items()
    }
    # CycleError names it
    TopologicalSorter({me: targets - {None, me} for me, targets in graph.items()}).prepare()
