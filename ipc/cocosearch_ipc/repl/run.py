"""The loop of the REPL: a prompt with history on a terminal, else lines of standard input."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.output import ColorDepth

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.questions import search_options
from cocosearch_ipc.render import output
from cocosearch_ipc.repl.session import InvalidLine, Quit, ReplSession, SearchOptions
from cocosearch_ipc.repl.suggestions import KnownNames, WordCompleter

Env = Mapping[str, str]


def run(args: argparse.Namespace, env: Env) -> int:
    """Answer queries until the end of input or `/quit`.

    Without a terminal, the exit code is 1 if a line failed.
    """
    style = output.Style.of(sys.stdout, env)
    options = SearchOptions(indexes=tuple(search_options.split_values(args.indexes or [])))
    session = ReplSession(env, style, args.json, options)
    if sys.stdin.isatty() and sys.stdout.isatty():
        session.call("status")  # fail before the first query, not after it
        return _prompt(session)
    return _read(session)


def _read(session: ReplSession) -> int:
    code = exits.OK
    for line in sys.stdin:
        try:
            output.lines(session.line(line))
        except Quit:
            break
        except (InvalidLine, client.CallFailed) as error:
            _complain(error, as_json=session.as_json)
            code = exits.FAILED
        output.flush()
    return code


def _prompt(session: ReplSession) -> int:
    if session.style.links:
        output.line("Type a query in words, or a name. /help lists the commands, Ctrl-D quits.")
    reader = _reader(session)
    while True:
        try:
            line = reader()
            output.lines(session.line(line))
        except KeyboardInterrupt:  # clears the line at the prompt, ends a running query
            continue
        except (EOFError, Quit):
            return exits.OK
        except (InvalidLine, client.CallFailed) as error:
            _complain(error)


def _reader(session: ReplSession) -> Callable[[], str]:
    """Return a function that prompts for a line. It raises EOFError and KeyboardInterrupt."""
    names = KnownNames(session)
    prompt: PromptSession[str] = PromptSession(
        history=_history(session.env),
        completer=ThreadedCompleter(WordCompleter(names)),
        complete_while_typing=Condition(_wants_completion),
        auto_suggest=AutoSuggestFromHistory(),
        color_depth=None if session.style.colour else ColorDepth.MONOCHROME,
        bottom_toolbar=lambda: f" {session.options.shown() or 'index of this directory'}   /help ",
    )
    mark = ANSI(session.style.paint("›", output.BOLD, output.GREEN) + " ")
    return lambda: prompt.prompt(mark)


def _wants_completion() -> bool:
    """Complete while typing only after `/` or a filter's colon; Tab always completes."""
    text = get_app().current_buffer.document.text_before_cursor.lstrip()
    return text.startswith("/") or ":" in text.rpartition(" ")[2]


def _history(env: Env) -> History:
    """Open the history file beside the daemon's state, with mode 0600; in memory if that fails."""
    path = Path(address.state_dir(env)) / "repl-history"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def _complain(error: InvalidLine | client.CallFailed, *, as_json: bool = False) -> None:
    hint = error.hint if isinstance(error, client.CallFailed) else ""
    output.error(str(error), hint, as_json=as_json)
