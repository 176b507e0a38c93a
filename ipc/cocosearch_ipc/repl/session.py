"""State and commands of a REPL session: one line in, lines out. Knows no terminal."""

import difflib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import daemon_calls
from cocosearch_ipc.cli.questions import editor
from cocosearch_ipc.cli.questions.search_options import INLINE_FILTERS, RERANKERS
from cocosearch_ipc.cli.running import termination
from cocosearch_ipc.render import answers, grep_lines, output, tables
from cocosearch_ipc.render.explain_view import explanation
from cocosearch_ipc.render.graph import reference_answers, structure_text
from cocosearch_ipc.repl.code_colours import lines as coloured

Env = Mapping[str, str]

START_OR_STOP_S = 20.0  # wait for a daemon that starts or stops
RESTART_GAP_S = 2.0  # wait for a daemon that answered before and does not run: it may be restarted
RETRY_PAUSE_S = 0.1
HELP = (
    (
        "QUERY",
        f'search for words or a name; filters: {" ".join(INLINE_FILTERS)} and "phrases"',
    ),
    (
        "/index [NAME,...]",
        "search these indexes; without a name, that of the current directory",
    ),
    ("/topic [NAME,...]", "search the indexes of these topics"),
    ("/lang [NAME,...]", "only these languages"),
    ("/reranker [NAME]", "reranker: " + ", ".join(RERANKERS)),
    ("/limit [N]", "at most N results"),
    ("/context [N]", "N lines around each result; without a number, the whole definition"),
    ("/explain", "turn explanations of answers on or off"),
    ("/open N", "open the Nth result in $EDITOR"),
    ("/grep PATTERN", "find the lines that match a regular expression"),
    ("/definition TARGET", "find the definition of a name or of path:line:column"),
    ("/references TARGET", "list all uses of a definition"),
    ("/callers TARGET", "list what calls a function"),
    ("/callees TARGET", "list what a function calls"),
    ("/impact TARGET", "list what a change of it affects"),
    ("/changes", "list what the changes since the last commit affect"),
    ("/dependencies PATH", "list what a file or directory imports"),
    ("/outline PATH", "print the definitions of a file or directory"),
    ("/map", "print the central definitions"),
    ("/sources", "list the indexes"),
    ("/topics", "list the topics and their indexes"),
    ("/reset", "reset all of the options above"),
    ("/help", "show this help"),
    ("/quit", "quit, like Ctrl-D"),
)
COMMANDS = tuple(name.split()[0] for name, _ in HELP if name.startswith("/"))


class Quit(Exception):
    """The user ends the session."""


class InvalidLine(Exception):
    """An invalid line; the message says why."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options for all queries of a session. Empty and None mean the daemon's default."""

    indexes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    reranker: str | None = None
    limit: int | None = None
    context: int | None = None
    explain: bool = False

    def params(self, text: str) -> dict[str, Any]:
        """Return the parameters of `search`."""
        options = {
            "index": self.indexes[0] if len(self.indexes) == 1 else None,
            "indexes": list(self.indexes) if len(self.indexes) > 1 else None,
            "topics": list(self.topics),
            "languages": list(self.languages),
            "reranker": self.reranker,
            "limit": self.limit,
            "lines_before": self.context,
            "lines_after": self.context,
            "explain": self.explain,
        }
        return {"query": text} | {
            name: value for name, value in options.items() if value not in (None, [], False)
        }

    def shown(self) -> str:
        """Format the options on one line, for a toolbar."""
        groups = (("", self.indexes), ("topic:", self.topics), ("lang:", self.languages))
        parts = [label + ",".join(values) for label, values in groups if values]
        parts += [
            f"{name} {value}"
            for name in ("reranker", "limit", "context")
            if (value := getattr(self, name))
        ]
        return "  ".join(parts + (["explain"] if self.explain else []))


@dataclass(slots=True)
class ReplSession:
    """One session. `line` answers a line; `options` and `hits` are its state."""

    env: Env
    style: output.Style
    as_json: bool = False
    options: SearchOptions = field(default_factory=SearchOptions)
    hits: list[dict[str, Any]] = field(default_factory=list)
    query: str = ""
    answered: bool = False

    def line(self, text: str) -> Iterator[str]:
        """Yield the output for one line. Raises `Quit`, `InvalidLine`, `client.CallFailed`."""
        text = text.strip()
        if not text:
            return
        if not text.startswith("/"):
            yield from self._ask(text)
            return
        name, _, rest = text.partition(" ")
        command = self._commands().get(name)
        if command is None:
            matches = difflib.get_close_matches(name, COMMANDS, 1)
            raise InvalidLine(
                f"unknown command {name}: "
                + (f"did you mean {matches[0]}?" if matches else "/help lists all commands")
            )
        yield from command(rest.strip())

    def _commands(self) -> dict[str, Callable[[str], Iterator[str]]]:
        return {
            "/help": self._help,
            "/topics": self._topics,
            "/sources": self._sources,
            "/topic": lambda rest: self._choose(topics=_names(rest)),
            "/index": lambda rest: self._choose(indexes=_names(rest)),
            "/lang": lambda rest: self._choose(languages=_names(rest)),
            "/reranker": self._reranker,
            "/limit": lambda rest: self._choose(limit=_number(rest, 1)),
            "/context": lambda rest: self._choose(context=_number(rest, 0)),
            "/explain": lambda _: self._choose(explain=not self.options.explain),
            "/grep": self._grep,
            "/definition": partial(self._ask_graph, "definition", reference_answers.definition),
            "/references": partial(self._ask_graph, "references", reference_answers.references),
            "/callers": partial(self._ask_graph, "callers", reference_answers.callers),
            "/callees": partial(self._ask_graph, "callees", reference_answers.callees),
            "/impact": partial(self._ask_graph, "impact", structure_text.impact),
            "/changes": partial(self._ask_structure, "changes", structure_text.changes),
            "/dependencies": partial(
                self._ask_structure, "dependencies", structure_text.dependencies
            ),
            "/outline": partial(self._ask_structure, "outline", structure_text.outline),
            "/map": partial(self._ask_structure, "map", structure_text.repository_map),
            "/open": self._open,
            "/reset": self._reset,
            "/quit": _quit,
        }

    def _ask(self, text: str) -> Iterator[str]:
        reply = self.call("search", daemon_calls.with_project(self.options.params(text)))
        self.hits = reply["results"]
        self.query = reply["query"]
        if self.as_json:
            yield output.compact(reply)
            return
        roots = self.roots() if self.style.links else {}
        yield from answers.text(
            reply, self.style, roots, full=self.options.context is not None, lex=coloured
        )
        yield from explanation(reply, self.style)

    def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Call the daemon; wait if it restarts. Raises `client.CallFailed`."""
        path = address.rpc_socket(self.env)
        began = time.monotonic()
        while True:
            try:
                reply = client.call(path, method, params)
            except client.CallFailed as failed:
                waited_s = time.monotonic() - began
                if failed.code != client.UNAVAILABLE or waited_s > self._wait_limit_s(path):
                    raise
            else:
                self.answered = True
                return reply
            time.sleep(RETRY_PAUSE_S)

    def _wait_limit_s(self, path: str) -> float:
        if termination.is_locked(Path(path).with_suffix(".lock")):
            return START_OR_STOP_S
        return RESTART_GAP_S if self.answered else 0.0

    def indexes(self) -> list[dict[str, Any]]:
        """Return all indexes, as `list` shows them."""
        entries: list[dict[str, Any]] = self.call("list_indexes")["indexes"]
        return entries

    def roots(self) -> dict[str, str]:
        """Return the root directory of each index, by index name."""
        return {index["name"]: index["root"] for index in self.indexes()}

    def _choose(self, **changed: Any) -> Iterator[str]:
        self.options = replace(self.options, **changed)
        yield f"options: {self.options.shown() or 'default'}"

    def _reset(self, _: str) -> Iterator[str]:
        self.options = SearchOptions()
        yield from self._choose()

    def _reranker(self, rest: str) -> Iterator[str]:
        if rest and rest not in RERANKERS:
            raise InvalidLine(f"unknown reranker {rest}: valid are {', '.join(RERANKERS)}")
        yield from self._choose(reranker=rest or None)

    def _grep(self, rest: str) -> Iterator[str]:
        """Find lines in the chosen indexes and languages."""
        if not rest:
            raise InvalidLine("give a pattern, for example /grep TODO")
        chosen = ("index", "indexes", "topics", "languages", "limit")
        params = {name: value for name, value in self.options.params("").items() if name in chosen}
        if self.options.context:
            params["context"] = self.options.context
        reply = self.call("grep", daemon_calls.with_cwd(params | {"pattern": rest}))
        if self.as_json:
            yield output.compact(reply)
        else:
            yield from grep_lines.grouped(reply, self.style, "lines")

    def _ask_graph(
        self,
        method: str,
        render: Callable[[dict[str, Any], output.Style], Iterator[str]],
        rest: str,
    ) -> Iterator[str]:
        """Ask the code graph of the chosen index, in the chosen languages."""
        if not rest:
            raise InvalidLine(f"give a name or a location, for example /{method} Client.retry")
        yield from self._ask_structure(method, render, rest)

    def _ask_structure(
        self,
        method: str,
        render: Callable[[dict[str, Any], output.Style], Iterator[str]],
        rest: str,
    ) -> Iterator[str]:
        """Ask about a file or a directory, or about all of the chosen index."""
        if len(self.options.indexes) > 1:
            raise InvalidLine("the code graph is of one index: /index NAME chooses it")
        chosen = ("index", "languages", "limit")
        params = {name: value for name, value in self.options.params("").items() if name in chosen}
        reply = self.call(method, daemon_calls.with_cwd({}) | params | {"target": rest})
        if self.as_json:
            yield output.compact(reply)
        else:
            yield from render(reply, self.style)

    def _help(self, _: str) -> Iterator[str]:
        for name, meaning in HELP:
            yield f"  {self.style.paint(f'{name:<18}', output.BOLD)}  {meaning}"

    def _sources(self, _: str) -> Iterator[str]:
        yield from tables.indexes(self.indexes(), self.style)

    def _topics(self, _: str) -> Iterator[str]:
        topics = dict[str, list[str]]()
        for index in self.indexes():
            for topic in index["topics"]:
                topics.setdefault(topic, []).append(index["name"])
        if not topics:
            yield "no topic yet: `cocosearchctl up PATH --topic TOPIC` creates one"
        yield from tables.table(
            [(topic, ", ".join(names)) for topic, names in sorted(topics.items())]
        )

    def _open(self, rest: str) -> Iterator[str]:
        number = _number(rest or "1", 1)
        if number is None or number > len(self.hits):
            raise InvalidLine(f"there is no result {rest}: the last answer had {len(self.hits)}")
        hit = self.hits[number - 1]
        command = editor.editor_command(hit, self.query, self.env)
        output.flush()
        try:
            subprocess.run(
                command, check=False, stdin=None if sys.stdin.isatty() else subprocess.DEVNULL
            )
        except OSError as error:
            raise InvalidLine(f"cannot start {command[0]}: {error.strerror}; set EDITOR") from None
        yield f"{output.printable(hit['path'], keep='')}:{hit['start_line']}"


def _quit(_: str) -> Iterator[str]:
    raise Quit


def _names(rest: str) -> tuple[str, ...]:
    return tuple(rest.replace(",", " ").split())


def _number(rest: str, least: int) -> int | None:
    if not rest:
        return None
    if not rest.isdecimal() or len(rest) > 15 or int(rest) < least:
        raise InvalidLine(f"{rest!r} is not a number of at least {least}")
    return int(rest)
