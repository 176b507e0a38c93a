"""The argparse tree of `cocosearchctl`: each verb's arguments, help with an example, and the
function that does it.
"""

import argparse
import difflib
import importlib
import math
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

from cocosearch_ipc.cli import exits
from cocosearch_ipc.client import VERSION
from cocosearch_ipc.render import output

Env = Mapping[str, str]
Run = Callable[[argparse.Namespace, Env], int]
Add = Callable[[argparse.ArgumentParser], object]


YEAR_S = 365 * 86_400
FORMATS = "compact: for a language model; grep: path:line:text"


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as every other error is said; exits with 2."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '(\S+)' \(choose from (.*)\)", message)
        near = (
            difflib.get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), 1) if wrong else []
        )
        hint = f"did you mean {near[0]}?" if near else f"{self.prog} --help"
        output.error(message.partition(" (choose from")[0], hint, as_json="--json" in sys.argv)
        raise SystemExit(exits.USAGE)

    def unrecognized(self, given: Sequence[str]) -> NoReturn:
        """Of arguments that nothing takes."""
        options = [name for action in self._actions for name in action.option_strings]
        near = difflib.get_close_matches(given[0].partition("=")[0], options, 1)
        hint = f"did you mean {near[0]}?" if near else f"{self.prog} --help"
        output.error(
            f"unrecognized arguments: {' '.join(given)}", hint, as_json="--json" in sys.argv
        )
        raise SystemExit(exits.USAGE)


class Verb:
    """A command: what it does, an example, its arguments, and `module:function` (below this
    package) that does it.

    Modules are imported when their verb is called: all of them together would cost every verb 50
    ms.
    """

    def __init__(self, name: str, help_text: str, example: str, add: Add, run: str) -> None:
        self.name = name
        self.help = help_text
        self.example = example
        self.add = add
        self.run = run

    def function(self) -> Run:
        """What does it, imported now."""
        module, _, function = self.run.partition(":")
        path = module if module.startswith("cocosearch_ipc.") else f"cocosearch_ipc.cli.{module}"
        return cast(Run, getattr(importlib.import_module(path), function))


def number(text: str) -> float:
    """What JSON can hold: argparse says "invalid number value" for the rest."""
    if not math.isfinite(value := float(text)):
        raise ValueError(text)
    return value


def seconds(text: str) -> float:
    """As `number`, at least none and at most a year: no clock and no poll takes what is much
    longer.
    """
    if not 0 <= (value := number(text)) <= YEAR_S:
        raise ValueError(text)
    return value


def count(text: str) -> int:
    """At least one."""
    if (value := int(text)) < 1:
        raise ValueError(text)
    return value


def index(text: str) -> str:
    """A name, or several with commas. An empty one, of a variable that is not set, would mean the
    index around here.
    """
    if not text.strip(", "):
        raise argparse.ArgumentTypeError("no index is named; `cocosearchctl list` shows them")
    return text


NAMED: dict[str, Any] = {"type": index, "metavar": "NAME"}


def run(arguments: list[str], env: Env) -> int:
    """Parse and run. Raises `client.CallFailed`; argparse itself exits with 2."""
    if not arguments:
        parser().print_help()
        return exits.USAGE
    args, unknown = parser().parse_known_args(arguments)
    verb: Verb = args.verb
    if unknown:
        args.complain(unknown)
    return verb.function()(args, env)


def parser() -> argparse.ArgumentParser:
    """The whole tree."""
    top = _Parser(
        prog="cocosearchctl",
        usage="cocosearchctl VERB ... [--json]",
        description="Search code by meaning and by words, in an index that follows the disk.\n\n"
        + _overview(),
        epilog="`cocosearchctl VERB --help` explains a verb. Start with `cocosearchctl up PATH`.\n\n"
        + textwrap.fill(exits.SUMMARY, 100),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"cocosearchctl {VERSION}")
    verbs = top.add_subparsers(
        metavar="VERB", required=True, help=argparse.SUPPRESS, prog="cocosearchctl"
    )
    for verb in VERBS:
        sub = verbs.add_parser(
            verb.name,
            description=verb.help,
            epilog=f"example: {verb.example}",
        )
        verb.add(sub)
        sub.add_argument(
            "--json", action="store_true", help="print JSON; errors too, on standard error"
        )
        sub.set_defaults(verb=verb, complain=sub.unrecognized)
    return top


def _overview() -> str:
    """Every verb and what it does, by what a person wants."""
    left = {verb.name: verb for verb in VERBS}
    lines = list[str]()
    for title, names in (*GROUPS, ("more", tuple(left))):
        here = [left.pop(name) for name in names if name in left]
        if here:
            lines += [f"{title}:", *(f"  {verb.name:<11} {verb.help}" for verb in here), ""]
    return "\n".join(lines).rstrip()


def _nothing(_: argparse.ArgumentParser) -> None:
    return None


def _up(p: argparse.ArgumentParser) -> None:
    p.add_argument("path", metavar="PATH", help="the project's directory")
    p.add_argument("--name", help="the index's name; by default the directory's")
    p.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="a group to search by; repeatable",
    )
    p.add_argument("--wait", action="store_true", help="also wait for changes that came meanwhile")
    p.add_argument("--no-wait", action="store_true", help="return at once; indexing goes on")


def _query(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "words",
        nargs="*",
        metavar="WORDS",
        help="what to find; none lists what a symbol filter leaves",
    )
    _add_index_options(p.add_argument_group("where"))
    _add_filter_options(p.add_argument_group("which hits"))
    _add_search_options(p.add_argument_group("how"))
    _add_display_options(p.add_argument_group("how it is shown"))


def _add_index_options(where: argparse._ArgumentGroup) -> None:
    where.add_argument(
        "--index", **NAMED, action="append", default=[], help="one or more: a,b; repeatable"
    )
    where.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="indexes of a topic; repeatable",
    )
    where.add_argument("--all", action="store_true", dest="all_indexes", help="every index")
    where.add_argument(
        "--no-linked", action="store_true", help="not the indexes that this one's project links"
    )


def _add_filter_options(which: argparse._ArgumentGroup) -> None:
    which.add_argument("--limit", type=int, metavar="N")
    which.add_argument(
        "--lang", "--language", action="append", default=[], dest="language", help="repeatable"
    )
    which.add_argument("--path", action="append", default=[], metavar="GLOB", help="repeatable")
    which.add_argument("--not-path", action="append", default=[], metavar="GLOB", help="repeatable")
    which.add_argument(
        "--symbol-type", action="append", default=[], metavar="TYPE", help="repeatable"
    )
    which.add_argument("--symbol-name", metavar="NAME")
    which.add_argument("--min-score", type=number, metavar="X")
    which.add_argument(
        "--all-chunks", action="store_true", help="several chunks of one place as well"
    )


def _add_search_options(how: argparse._ArgumentGroup) -> None:
    how.add_argument("--profile", metavar="NAME", help="how to rank: code, classic")
    how.add_argument("--reranker", metavar="NAME")
    how.add_argument("--no-hybrid", action="store_true", help="by meaning only")
    how.add_argument("--no-cache", action="store_true")
    _patience(how)
    how.add_argument("--explain", action="store_true", help="also print how the answer came about")
    how.add_argument("--why-not", metavar="PATH", help="say why this place is not among the hits")


def _add_display_options(shown: argparse._ArgumentGroup) -> None:
    shown.add_argument("-B", "--lines-before", type=int, metavar="N")
    shown.add_argument("-A", "--lines-after", type=int, metavar="N")
    shown.add_argument("-C", "--lines-around", type=int, metavar="N")
    shown.add_argument(
        "--no-smart",
        "--no-smart-context",
        dest="no_smart_context",
        action="store_true",
        help="chunks as they are, not their definitions",
    )
    shown.add_argument(
        "--budget",
        type=int,
        dest="budget_tokens",
        metavar="TOKENS",
        help="about this much in total",
    )
    shown.add_argument(
        "--budget-chars", type=int, metavar="CHARACTERS", help="at most this much code in total"
    )
    shown.add_argument("--full", action="store_true", help="whole hits")
    shown.add_argument(
        "--format", choices=("text", "compact", "grep", "json"), default="text", help=FORMATS
    )
    shown.add_argument("--open", type=int, metavar="N", help="open the Nth hit in $EDITOR")


def _patience(p: argparse._ActionsContainer) -> None:
    p.add_argument(
        "--sync-timeout", type=seconds, metavar="SECONDS", help="wait at most this long for changes"
    )
    p.add_argument(
        "--no-sync", action="store_const", const=0.0, dest="sync_timeout", help="do not wait at all"
    )


def _repl(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--index", **NAMED, action="append", default=[], help="one or more: a,b; repeatable"
    )


def _named(help_text: str) -> Callable[[argparse.ArgumentParser], None]:
    def add(p: argparse.ArgumentParser) -> None:
        p.add_argument(
            "name", **NAMED, nargs="?", help=f"{help_text}; by default that of this directory"
        )

    return add


def _list(p: argparse.ArgumentParser) -> None:
    p.add_argument("--names", action="store_true", help="names only, one a line")


def _stats(p: argparse.ArgumentParser) -> None:
    _named("the index")(p)
    p.add_argument(
        "--failures", action="store_true", help="also list files that did not parse or were skipped"
    )
    _patience(p)


def _sync(p: argparse.ArgumentParser) -> None:
    _named("the index")(p)
    p.add_argument("--index", **NAMED, dest="named", help="the same, as in `query`")
    p.add_argument("--timeout", type=seconds, default=30.0, metavar="SECONDS")


def _reindex(p: argparse.ArgumentParser) -> None:
    _named("the index")(p)
    p.add_argument("--no-wait", action="store_true", help="return at once")


def _clear(p: argparse.ArgumentParser) -> None:
    p.add_argument("name", metavar="NAME")
    p.add_argument("--yes", action="store_true", help="do not ask")


def _logs(p: argparse.ArgumentParser) -> None:
    p.add_argument("-f", "--follow", action="store_true", help="go on as records come")
    p.add_argument("-n", "--lines", type=int, default=50, metavar="N")


def _bench(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--index", **NAMED, help="ask this one; by default that of this directory, or the largest"
    )
    p.add_argument(
        "--files",
        type=count,
        default=200,
        metavar="N",
        help="how many to index in a scratch directory",
    )


def _config(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "what", choices=("show", "check"), help="show: what holds; check: whether it can be used"
    )
    p.add_argument(
        "--index", **NAMED, help="of this index; by default of the one around this directory"
    )


def _init(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "path",
        nargs="?",
        default=".",
        metavar="PATH",
        help="the project's directory; by default this one",
    )
    p.add_argument("--force", action="store_true", help="in the place of a file that is there")


def _status(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--open",
        action="store_true",
        help="open the status page in a browser; with --json print its address",
    )


def _service(p: argparse.ArgumentParser) -> None:
    p.add_argument("what", choices=("install", "uninstall", "start", "stop", "status"))
    p.add_argument(
        "--system", action="store_true", help="of the system, for the user who calls sudo"
    )


def _install(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "assistant",
        choices=("claude", "claude-desktop", "cursor", "vscode", "codex", "opencode", "gemini"),
    )
    p.add_argument(
        "--project", action="store_true", help="for the project in the current directory only"
    )
    p.add_argument(
        "--print", action="store_true", help="print what would be written, change nothing"
    )
    p.add_argument("--remove", action="store_true", help="take it out again")


def _completion(p: argparse.ArgumentParser) -> None:
    p.add_argument("shell", choices=("bash", "zsh", "fish"))


def _files(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "under", nargs="?", metavar="DIRECTORY", help="only below it; as in a hit, or from here"
    )
    p.add_argument("--index", **NAMED)
    p.add_argument("--glob", metavar="GLOB", help="only paths that match, e.g. '**/test_*.py'")
    p.add_argument("--limit", type=count, default=1000, metavar="N")
    _patience(p)


def _place(p: argparse.ArgumentParser) -> None:
    p.add_argument("place", metavar="PATH[:LINE[-LINE]]", help="as a hit has it, or from here")
    p.add_argument("--index", **NAMED)


def _related(p: argparse.ArgumentParser) -> None:
    _place(p)
    p.add_argument("--limit", type=count, metavar="N")


def _watch(p: argparse.ArgumentParser) -> None:
    p.add_argument("--index", **NAMED, help="only this index")
    p.add_argument(
        "--since",
        metavar="EPOCH:SEQ",
        help="first what changed after this clock, as `sync --json` gave it",
    )
    p.add_argument(
        "--query",
        metavar="TEXT",
        help="print what this question newly finds in the files that change",
    )
    p.add_argument("--limit", type=int, metavar="N", help="with --query: among its first N results")
    p.add_argument(
        "--min-score",
        type=number,
        metavar="SCORE",
        help="with --query: only results as relevant as this (0.25)",
    )
    p.add_argument(
        "--all-chunks", action="store_true", help="with --query: more than one result a file"
    )


def _top(p: argparse.ArgumentParser) -> None:
    p.add_argument("--interval", type=seconds, default=1.0, metavar="SECONDS")


def _mcp(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--project", metavar="PATH", help="what to search by default, if not the current directory"
    )
    p.add_argument(
        "--project-from-cwd",
        action="store_true",
        help="search the current directory (this is the default)",
    )


def _token(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--rotate", action="store_true", help="make a new one; the old one is refused from then on"
    )


def _help(p: argparse.ArgumentParser) -> None:
    p.add_argument("about", nargs="?", metavar="VERB")


def explain(args: argparse.Namespace, env: Env) -> int:  # noqa: ARG001 - every verb has this shape
    """`help [VERB]`: the same as `VERB --help`, or as JSON what there is."""
    known = [verb for verb in VERBS if args.about in (None, verb.name)]
    if args.json and known:
        found = [{"verb": verb.name, "help": verb.help, "example": verb.example} for verb in known]
        output.document({"verbs": found})
        return exits.OK
    parser().parse_args([args.about, "--help"] if args.about else ["--help"])
    return exits.OK


# In `--help`; what is in no group comes last.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("find code", ("query", "repl", "related", "files", "cat")),
    ("indexes", ("up", "list", "stats", "sync", "watch", "reindex", "clear", "languages")),
    (
        "the daemon",
        ("status", "top", "doctor", "logs", "bench", "restart", "down", "service", "version"),
    ),
    ("set up", ("init", "config", "models", "install", "mcp", "token", "completion", "help")),
)

VERBS: tuple[Verb, ...] = (
    Verb(
        "up",
        "Watch a directory and make it searchable; starts the daemon.",
        "cocosearchctl up ~/code/project --name project",
        _up,
        "questions.index_verbs:up",
    ),
    Verb(
        "query",
        "Find code by meaning, by words or by a name.",
        'cocosearchctl query "where are retries decided" --lang python',
        _query,
        "questions.query_options:run",
    ),
    Verb(
        "repl",
        "Ask, and ask on.",
        "cocosearchctl repl --index project",
        _repl,
        "cocosearch_ipc.repl.run:run",
    ),
    Verb(
        "files",
        "List indexed files.",
        "cocosearchctl files src --glob '**/*.py'",
        _files,
        "questions.file_verbs:files",
    ),
    Verb(
        "cat",
        "Print a file of an index.",
        "cocosearchctl cat src/retry.py:10-40",
        _place,
        "questions.file_verbs:cat",
    ),
    Verb(
        "related",
        "Find code like a definition.",
        "cocosearchctl related src/a.py:12",
        _related,
        "questions.file_verbs:related",
    ),
    Verb(
        "watch",
        "Print what becomes searchable.",
        "cocosearchctl watch --query TODO",
        _watch,
        "questions.file_verbs:watch",
    ),
    Verb(
        "models",
        "List the embedding models.",
        "cocosearchctl models",
        _nothing,
        "questions.file_verbs:models",
    ),
    Verb(
        "languages",
        "List the languages.",
        "cocosearchctl languages",
        _nothing,
        "questions.file_verbs:languages",
    ),
    Verb(
        "status",
        "Show the daemon and its indexes.",
        "cocosearchctl status --open",
        _status,
        "running.daemon_verbs:status",
    ),
    Verb("top", "Watch the daemon at work.", "cocosearchctl top", _top, "running.top:run"),
    Verb(
        "list",
        "List the indexes.",
        "cocosearchctl list",
        _list,
        "questions.index_verbs:list_indexes",
    ),
    Verb(
        "stats",
        "Count files, chunks and symbols of an index.",
        "cocosearchctl stats project",
        _stats,
        "questions.index_verbs:stats",
    ),
    Verb(
        "sync",
        "Wait until every change is searchable.",
        "cocosearchctl sync --timeout 10",
        _sync,
        "questions.index_verbs:sync",
    ),
    Verb(
        "reindex",
        "Index every file again.",
        "cocosearchctl reindex project",
        _reindex,
        "questions.index_verbs:reindex",
    ),
    Verb(
        "clear",
        "Forget an index; files stay.",
        "cocosearchctl clear project --yes",
        _clear,
        "questions.index_verbs:clear",
    ),
    Verb("down", "Stop the daemon.", "cocosearchctl down", _nothing, "running.daemon_verbs:down"),
    Verb(
        "restart",
        "Stop the daemon and start it again.",
        "cocosearchctl restart",
        _nothing,
        "running.daemon_verbs:restart",
    ),
    Verb(
        "logs",
        "Show the daemon's log.",
        "cocosearchctl logs -f",
        _logs,
        "running.daemon_verbs:logs",
    ),
    Verb(
        "doctor",
        "Look for trouble and say what mends it.",
        "cocosearchctl doctor",
        _nothing,
        "setup.doctor:run",
    ),
    Verb(
        "config",
        "Show settings and who said them, or check.",
        "cocosearchctl config show",
        _config,
        "setup.config_verbs:run",
    ),
    Verb(
        "init",
        "Write a first file of a project's settings.",
        "cocosearchctl init ~/code/a",
        _init,
        "setup.config_verbs:init",
    ),
    Verb(
        "bench",
        "Measure this machine's figures.",
        "cocosearchctl bench --index project",
        _bench,
        "questions.bench:run",
    ),
    Verb(
        "install",
        "Add the MCP server to an assistant.",
        "cocosearchctl install claude",
        _install,
        "setup.install:run",
    ),
    Verb(
        "completion",
        "Print the shell's completion script.",
        "source <(cocosearchctl completion bash)",
        _completion,
        "setup.completion:run",
    ),
    Verb(
        "mcp",
        "Speak MCP on standard input and output.",
        "cocosearchctl mcp --project ~/code/a",
        _mcp,
        "running.bridge:run",
    ),
    Verb(
        "token",
        "Print the token of the MCP listener.",
        "cocosearchctl token --rotate",
        _token,
        "setup.token:run",
    ),
    Verb(
        "version",
        "Print the versions of both programs.",
        "cocosearchctl version",
        _nothing,
        "running.daemon_verbs:version",
    ),
    Verb(
        "help",
        "Explain a verb, or list them all.",
        "cocosearchctl help query",
        _help,
        "parser:explain",
    ),
    Verb(
        "service",
        "Run the daemon under systemd or launchd.",
        "cocosearchctl service install",
        _service,
        "running.service_manager:run",
    ),
)
