"""The argparse tree of `cocosearchctl`: arguments, help, example and function of each verb."""

import argparse
import difflib
import importlib
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

from cocosearch_ipc.cli import argument_types, exits
from cocosearch_ipc.cli.graph import graph_options, structure_options
from cocosearch_ipc.cli.questions import grep_options, search_options
from cocosearch_ipc.client import VERSION
from cocosearch_ipc.render import output

Env = Mapping[str, str]
Run = Callable[[argparse.Namespace, Env], int]
Add = Callable[[argparse.ArgumentParser], object]


MAX_LISTED_CHOICES = 10  # of an option, in an error; a list of all verbs would be too long
FORMATS = "compact: for a language model; grep: path:line:text"


def _is_free_text(action: argparse.Action) -> bool:
    return not action.option_strings and action.type is None and action.choices is None


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, like all other errors, and exits with 2."""

    def error(self, message: str) -> NoReturn:
        match = re.search(r"invalid choice: '(\S+)' \(choose from (.*)\)", message)
        choices = re.findall(r"[\w-]+", match[2]) if match else []
        matches = difflib.get_close_matches(match[1], choices, 1) if match else []
        hint = f"{self.prog} --help"
        if matches:
            hint = f"did you mean {matches[0]}?"
        elif 0 < len(choices) <= MAX_LISTED_CHOICES:
            hint = f"use one of {', '.join(choices)}"
        output.error(message.partition(" (choose from")[0], hint, as_json="--json" in sys.argv)
        raise SystemExit(exits.USAGE)

    def add_late_values(self, args: argparse.Namespace, arguments: Sequence[str]) -> Sequence[str]:
        """Assign values that follow an option to their positional arguments; return the others.

        argparse itself stops to collect values of a positional argument at the next option.
        """
        if any(argument.startswith("-") for argument in arguments):
            return arguments
        remaining = list(arguments)
        for action in self._actions:
            is_text = _is_free_text(action)
            if is_text and action.nargs == "?" and getattr(args, action.dest) == action.default:
                setattr(args, action.dest, remaining.pop(0) if remaining else action.default)
            elif is_text and action.nargs == "*":
                setattr(args, action.dest, [*getattr(args, action.dest), *remaining])
                remaining.clear()
        return remaining

    def unrecognized(self, arguments: Sequence[str]) -> NoReturn:
        """Report arguments that no option accepts."""
        options = [name for action in self._actions for name in action.option_strings]
        matches = difflib.get_close_matches(arguments[0].partition("=")[0], options, 1)
        hint = f"did you mean {matches[0]}?" if matches else f"{self.prog} --help"
        output.error(
            f"unrecognized arguments: {' '.join(arguments)}", hint, as_json="--json" in sys.argv
        )
        raise SystemExit(exits.USAGE)


class Verb:
    """A command: its help text, an example, its arguments, and the function that runs it.

    `function_path` is `module:function`, below this package. A module is imported only when its verb runs:
    importing all of them would cost every verb 50 ms.
    """

    def __init__(self, name: str, help_text: str, example: str, add: Add, run: str) -> None:
        self.name = name
        self.help = help_text
        self.example = example
        self.add = add
        self.function_path = run

    def function(self) -> Run:
        """Import and return the function that runs the verb."""
        module, _, function = self.function_path.partition(":")
        path = module if module.startswith("cocosearch_ipc.") else f"cocosearch_ipc.cli.{module}"
        return cast(Run, getattr(importlib.import_module(path), function))


NAMED: dict[str, Any] = {"type": argument_types.index, "metavar": "NAME"}


def run(arguments: list[str], env: Env) -> int:
    """Parse the arguments and run the verb.

    Raises `client.CallFailed`; argparse itself exits with 2.
    """
    if not arguments:
        parser().print_help()
        return exits.USAGE
    args, unknown = parser(arguments[0]).parse_known_args(arguments)
    verb: Verb = args.verb
    if unknown and (remaining := args.verb_parser.add_late_values(args, unknown)):
        args.verb_parser.unrecognized(remaining)
    return verb.function()(args, env)


def parser(verb_name: str = "") -> argparse.ArgumentParser:
    """Build the parser of one verb, or of all verbs.

    The parsers of all verbs would cost each call 10 ms.
    """
    top = _Parser(
        prog="cocosearchctl",
        usage="cocosearchctl VERB ... [--json]",
        description="Search code by meaning and by words, in an index that is always current.\n\n"
        + _overview(),
        epilog="`cocosearchctl VERB --help` explains a verb. "
        "Begin with `cocosearchctl up PATH`.\n\n" + textwrap.fill(exits.SUMMARY, 100),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"cocosearchctl {VERSION}")
    verbs = top.add_subparsers(
        metavar="VERB", required=True, help=argparse.SUPPRESS, prog="cocosearchctl"
    )
    for verb in [verb for verb in VERBS if verb.name == verb_name] or VERBS:
        sub = verbs.add_parser(
            verb.name,
            description=verb.help,
            epilog=f"example: {verb.example}",
        )
        verb.add(sub)
        sub.add_argument(
            "--json", action="store_true", help="print JSON; errors go to standard error as JSON"
        )
        sub.set_defaults(verb=verb, verb_parser=sub)
    return top


def _overview() -> str:
    """Return all verbs with their help, grouped by task."""
    remaining = {verb.name: verb for verb in VERBS}
    lines = list[str]()
    for title, names in (*GROUPS, ("more", tuple(remaining))):
        verbs = [remaining.pop(name) for name in names if name in remaining]
        if verbs:
            lines += [f"{title}:", *(f"  {verb.name:<11} {verb.help}" for verb in verbs), ""]
    return "\n".join(lines).rstrip()


def _nothing(_: argparse.ArgumentParser) -> None:
    return None


def _up(p: argparse.ArgumentParser) -> None:
    p.add_argument("path", metavar="PATH", help="the project's directory")
    p.add_argument("--name", help="name of the index; default: the name of the directory")
    p.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="topic for searches over a group of indexes; repeatable",
    )
    wait = p.add_mutually_exclusive_group()
    wait.add_argument(
        "--wait", action="store_true", help="also wait for changes made during indexing"
    )
    wait.add_argument("--no-wait", action="store_true", help="return at once; indexing continues")


def _query(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "words",
        nargs="*",
        metavar="WORDS",
        help="what to find; without words, a symbol filter lists all its matches; "
        "`-` reads a report, a log or a stack trace from standard input",
    )
    p.add_argument(
        "--file", metavar="FILE", help="read the question from a file: a report, a log, a trace"
    )
    groups = {title: p.add_argument_group(title) for title in search_options.OPTION_GROUPS}
    for title, options in search_options.OPTION_GROUPS.items():
        for option in options:
            option.add_to(groups[title])
    _add_output_options(groups["output"])


def _add_output_options(output_group: argparse._ArgumentGroup) -> None:
    output_group.add_argument("--full", action="store_true", help="print each result completely")
    output_group.add_argument(
        "--format", choices=("text", "compact", "grep", "json"), default="text", help=FORMATS
    )
    output_group.add_argument(
        "--open", type=int, metavar="N", help="open the Nth result in $EDITOR"
    )


def _add_sync_options(p: argparse.ArgumentParser) -> None:
    for option in search_options.SYNC_OPTIONS:
        option.add_to(p)


def _grep(p: argparse.ArgumentParser) -> None:
    p.add_argument("pattern", metavar="PATTERN", help="a regular expression in RE2's syntax")
    p.add_argument(
        "under",
        nargs="?",
        metavar="PATH",
        help="only this file or directory; relative to the root or to the current directory",
    )
    for title, options in grep_options.OPTION_GROUPS.items():
        group = p.add_argument_group(title)
        for option in options:
            option.add_to(group)


def _repl(p: argparse.ArgumentParser) -> None:
    search_options.INDEX_OPTION.add_to(p)


def _index_argument(help_text: str) -> Callable[[argparse.ArgumentParser], None]:
    def add(p: argparse.ArgumentParser) -> None:
        p.add_argument(
            "name",
            **NAMED,
            nargs="?",
            help=f"{help_text}; default: the index of the current directory",
        )

    return add


def _list(p: argparse.ArgumentParser) -> None:
    p.add_argument("--names", action="store_true", help="print only names, one per line")


def _stats(p: argparse.ArgumentParser) -> None:
    _index_argument("the index")(p)
    p.add_argument(
        "--failures",
        action="store_true",
        help="also list files that did not parse or were skipped",
    )
    _add_sync_options(p)


def _sync(p: argparse.ArgumentParser) -> None:
    _index_argument("the index")(p)
    p.add_argument("--index", **NAMED, dest="named", help="the index, written as for `query`")
    p.add_argument(
        "--timeout",
        type=argument_types.seconds,
        default=30.0,
        metavar="SECONDS",
        help="maximum time to wait; default: 30",
    )


def _reindex(p: argparse.ArgumentParser) -> None:
    _index_argument("the index")(p)
    p.add_argument("--no-wait", action="store_true", help="return at once; indexing continues")


def _clear(p: argparse.ArgumentParser) -> None:
    p.add_argument("name", nargs="?", metavar="NAME", help="the index")
    p.add_argument("--all", action="store_true", help="delete every index")
    p.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _logs(p: argparse.ArgumentParser) -> None:
    p.add_argument("-f", "--follow", action="store_true", help="print new records as they arrive")
    p.add_argument(
        "-n", "--lines", type=int, default=50, metavar="N", help="number of lines; default: 50"
    )


def _bench(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--index",
        **NAMED,
        help="index for the queries; default: that of the current directory, or the largest",
    )
    p.add_argument(
        "--files",
        type=argument_types.count,
        default=200,
        metavar="N",
        help="number of files to index in a scratch directory; default: 200",
    )
    p.add_argument(
        "--tree",
        metavar="DIR",
        help="index a copy of this directory in place of files of Python's standard library",
    )


def _config(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "what",
        choices=("show", "check"),
        help="show: print all settings and their sources; check: test that they work",
    )
    p.add_argument(
        "--index",
        **NAMED,
        help="settings of this index; default: the index of the current directory",
    )


def _init(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "path",
        nargs="?",
        default=".",
        metavar="PATH",
        help="the project's directory; default: the current directory",
    )
    p.add_argument("--force", action="store_true", help="overwrite an existing file")


def _status(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--open",
        action="store_true",
        help="open the status page in a browser; with --json only print its address",
    )


def _service(p: argparse.ArgumentParser) -> None:
    p.add_argument("what", choices=("install", "uninstall", "start", "stop", "status"))
    p.add_argument(
        "--system", action="store_true", help="use a system unit, for the user who calls sudo"
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
        "--print", action="store_true", help="print the configuration without writing it"
    )
    p.add_argument("--remove", action="store_true", help="remove the server again")


def _completion(p: argparse.ArgumentParser) -> None:
    p.add_argument("shell", choices=("bash", "zsh", "fish"))


def _files(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "under",
        nargs="?",
        metavar="DIRECTORY",
        help="only files below it; relative to the root or to the current directory",
    )
    p.add_argument("--index", **NAMED, help="the index")
    p.add_argument("--glob", metavar="GLOB", help="only paths that match, e.g. '**/test_*.py'")
    p.add_argument(
        "--limit",
        type=argument_types.count,
        default=1000,
        metavar="N",
        help="maximum number of files; default: 1000",
    )
    _add_sync_options(p)


def _place(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "place",
        metavar="PATH[:LINE[-LINE]]",
        help="path relative to the root, as in results, or to the current directory",
    )
    p.add_argument("--index", **NAMED, help="the index")


def _related(p: argparse.ArgumentParser) -> None:
    _place(p)
    p.add_argument(
        "--limit", type=argument_types.count, metavar="N", help="maximum number of results"
    )


def _watch(p: argparse.ArgumentParser) -> None:
    p.add_argument("--index", **NAMED, help="only this index")
    p.add_argument(
        "--since",
        metavar="EPOCH:SEQ",
        help="first print the changes after this clock; `sync --json` returns a clock",
    )
    p.add_argument(
        "--query",
        metavar="TEXT",
        help="print only new results of this query in changed files",
    )
    p.add_argument(
        "--limit", type=int, metavar="N", help="with --query: only among the first N results"
    )
    p.add_argument(
        "--min-evidence",
        "--min-score",
        type=argument_types.number,
        metavar="SCORE",
        help="with --query: least similarity of a result, 0 to 1; 1: it has every word; default: 0.25",
    )
    p.add_argument(
        "--all-chunks", action="store_true", help="with --query: allow several results per file"
    )


def _top(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--interval",
        type=argument_types.seconds,
        default=1.0,
        metavar="SECONDS",
        help="time between frames; default: 1",
    )


def _mcp(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--project",
        metavar="PATH",
        help="directory to search by default; default: the current directory",
    )
    p.add_argument(
        "--project-from-cwd",
        action="store_true",
        help="use the current directory as the project, as if --project named it",
    )


def _token(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--rotate", action="store_true", help="create a new token; the old one becomes invalid"
    )


def _help(p: argparse.ArgumentParser) -> None:
    p.add_argument("about", nargs="?", metavar="VERB")


def explain(args: argparse.Namespace, env: Env) -> int:  # noqa: ARG001 - every verb has this shape
    """Run `help [VERB]`: the same as `VERB --help`; with `--json`, a list of verbs."""
    verbs = [verb for verb in VERBS if args.about in (None, verb.name)]
    if args.json and verbs:
        entries = [
            {"verb": verb.name, "help": verb.help, "example": verb.example} for verb in verbs
        ]
        output.document({"verbs": entries})
        return exits.OK
    parser().parse_args([args.about, "--help"] if args.about else ["--help"])
    return exits.OK


# Groups of `--help`; verbs without a group come last.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("find code", ("query", "grep", "repl", "related", "files", "cat")),
    (
        "code graph",
        ("definition", "references", "callers", "callees", "impact", "changes", "scip"),
    ),
    ("structure", ("dependencies", "outline", "map")),
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
        "running.up_verb:up",
    ),
    Verb(
        "query",
        "Find code by meaning, by words or by a name.",
        'cocosearchctl query "where are retries decided" --lang python',
        _query,
        "questions.query_verb:run",
    ),
    Verb(
        "grep",
        "Find the lines that match a regular expression, as on disk now.",
        "cocosearchctl grep 'def \\w+_retry' src --lang python",
        _grep,
        "questions.grep_verb:run",
    ),
    Verb(
        "definition",
        "Find the definition of a name, or of what is used at a location.",
        "cocosearchctl definition src/retry.py:12:9",
        graph_options.add_definition,
        "graph.reference_verbs:definition",
    ),
    Verb(
        "references",
        "List all uses of a definition, or the files that import a file.",
        "cocosearchctl references Client.retry",
        graph_options.add_references,
        "graph.reference_verbs:references",
    ),
    Verb(
        "callers",
        "List what calls a function, and its callers.",
        "cocosearchctl callers Client.retry --depth 3",
        graph_options.add_calls,
        "graph.reference_verbs:callers",
    ),
    Verb(
        "callees",
        "List what a function calls.",
        "cocosearchctl callees src/retry.py:12",
        graph_options.add_calls,
        "graph.reference_verbs:callees",
    ),
    Verb(
        "impact",
        "List what a change of a definition or a file affects, and the tests to run.",
        "cocosearchctl impact Client.retry --depth 2",
        structure_options.add_impact,
        "graph.structure_verbs:impact",
    ),
    Verb(
        "changes",
        "List the definitions that a change in git touches, and what it affects.",
        "cocosearchctl changes main...HEAD",
        structure_options.add_changes,
        "graph.structure_verbs:changes",
    ),
    Verb(
        "scip",
        "Import a SCIP index, so that the uses in it are certain.",
        "cocosearchctl scip index.scip --index project",
        graph_options.add_scip,
        "graph.scip_verb:scip",
    ),
    Verb(
        "dependencies",
        "List what files or modules import, and import cycles.",
        "cocosearchctl dependencies src --format mermaid",
        structure_options.add_dependencies,
        "graph.structure_verbs:dependencies",
    ),
    Verb(
        "outline",
        "Print the definitions of a file or a directory.",
        "cocosearchctl outline src/retry.py",
        structure_options.add_outline,
        "graph.structure_verbs:outline",
    ),
    Verb(
        "map",
        "Print the central definitions of an index.",
        "cocosearchctl map --query retries --budget 1000",
        structure_options.add_map,
        "graph.structure_verbs:code_map",
    ),
    Verb(
        "repl",
        "Search interactively.",
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
        "Find code similar to a definition.",
        "cocosearchctl related src/a.py:12",
        _related,
        "questions.file_verbs:related",
    ),
    Verb(
        "watch",
        "Print changes as they become searchable.",
        "cocosearchctl watch --query TODO",
        _watch,
        "questions.file_verbs:watch",
    ),
    Verb(
        "models",
        "List the available embedding models.",
        "cocosearchctl models",
        _nothing,
        "questions.file_verbs:models",
    ),
    Verb(
        "languages",
        "List the supported languages.",
        "cocosearchctl languages",
        _nothing,
        "questions.file_verbs:languages",
    ),
    Verb(
        "status",
        "Show the daemon and its indexes.",
        "cocosearchctl status --open",
        _status,
        "running.status_verb:status",
    ),
    Verb("top", "Show a live view of the daemon.", "cocosearchctl top", _top, "running.top:run"),
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
        "Delete an index, or all; your files stay.",
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
        "Check every dependency and print the fix.",
        "cocosearchctl doctor",
        _nothing,
        "setup.doctor:run",
    ),
    Verb(
        "config",
        "Show settings with their sources, or test them.",
        "cocosearchctl config show",
        _config,
        "setup.config_verbs:run",
    ),
    Verb(
        "init",
        "Write a template for a project's settings.",
        "cocosearchctl init ~/code/a",
        _init,
        "setup.config_verbs:init",
    ),
    Verb(
        "bench",
        "Measure the performance on this machine.",
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
        "Print a shell completion script.",
        "source <(cocosearchctl completion bash)",
        _completion,
        "setup.completion:run",
    ),
    Verb(
        "mcp",
        "Serve MCP on standard input and output.",
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
