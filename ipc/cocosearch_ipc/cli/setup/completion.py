"""`completion`: scripts for bash, zsh and fish, generated from the argparse tree.

The scripts ask the daemon for index names.
"""

import argparse
from collections.abc import Iterator, Mapping

from cocosearch_ipc.cli import exits, parser
from cocosearch_ipc.render import output

# Verbs that take the name of an index as their argument.
NAMES = "cocosearchctl list --names 2>/dev/null"
_LINES = f'${{(f)"$({NAMES})"}}'  # for zsh; names may contain spaces
TAKES_NAME = ("stats", "sync", "reindex", "clear")


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:  # noqa: ARG001 - every verb has this shape
    """Print the script for one shell."""
    make = {"bash": bash, "zsh": zsh, "fish": fish}[args.shell]
    output.lines(make())
    return exits.OK


def words() -> dict[str, list[str]]:
    """Return the words that may follow each verb: options, and choices of its arguments."""
    candidates = dict[str, list[str]]()
    for name, sub in _subparsers().items():
        candidates[name] = [
            option
            for action in sub._actions
            for option in action.option_strings
            if option.startswith("--")
        ]
        candidates[name] += [
            str(c) for a in sub._actions if a.choices and not a.option_strings for c in a.choices
        ]
    return candidates


def _subparsers() -> dict[str, argparse.ArgumentParser]:
    tree = parser.parser()
    action = next(
        action for action in tree._actions if isinstance(action, argparse._SubParsersAction)
    )
    return dict(action.choices)


def bash() -> Iterator[str]:
    """Yield the script for `source <(cocosearchctl completion bash)`.

    A project chooses the name of its index, so names are untrusted: they are read line by line,
    because `compgen -W` would run `$(...)`, and quoted on the command line.
    """
    yield "_cocosearchctl() {"
    yield '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '  local words="" names="" one'
    yield "  COMPREPLY=()"
    yield f'  if [ "$COMP_CWORD" -eq 1 ]; then words="{" ".join(words())}"'
    yield '  elif [ "$previous" = --index ]; then names=yes'
    yield '  else case "${COMP_WORDS[1]}" in'
    for verb, options in words().items():
        names = " names=yes" if verb in TAKES_NAME else ""
        yield f'    {verb}) words="{" ".join(options)}"{names} ;;'
    yield "  esac; fi"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield '  if [ "${COMP_WORDS[1]}" = up ] && [ "$COMP_CWORD" -gt 1 ]; then'
    yield "    compopt -o filenames 2>/dev/null"
    yield '    while IFS= read -r one; do COMPREPLY+=("$one"); done < <(compgen -d -- "$current")'
    yield "  fi"
    yield '  if [ -n "$names" ]; then while IFS= read -r one; do'
    yield '    printf -v one %q "$one"; [[ "$one" == "$current"* ]] && COMPREPLY+=("$one")'
    yield f"  done < <({NAMES}); fi"
    yield "}"
    yield "complete -F _cocosearchctl cocosearchctl"


def zsh() -> Iterator[str]:
    """Yield the script for `completion zsh > ~/.zfunc/_cocosearchctl`, or to source."""
    yield "#compdef cocosearchctl"
    yield "_cocosearchctl() {"
    yield f"  if (( CURRENT == 2 )); then compadd {' '.join(words())}; return; fi"
    yield f"  if [[ ${{words[CURRENT-1]}} == --index ]]; then compadd -- {_LINES}; return; fi"
    yield "  case ${words[2]} in"
    for verb, options in words().items():
        more = (
            f"; compadd -- {_LINES}"
            if verb in TAKES_NAME
            else "; _files -/"
            if verb == "up"
            else ""
        )
        yield f"    {verb}) compadd -- {' '.join(options)}{more} ;;"
    yield "  esac"
    yield "}"
    yield 'if [ "$funcstack[1]" = _cocosearchctl ]'  # autoloaded, else sourced
    yield 'then _cocosearchctl "$@"; else compdef _cocosearchctl cocosearchctl; fi'


def fish() -> Iterator[str]:
    """Yield the script for `cocosearchctl completion fish | source`."""
    yield "complete -c cocosearchctl -f"
    for verb in parser.VERBS:
        described = verb.help.replace("'", "")
        yield f"complete -c cocosearchctl -n __fish_use_subcommand -a {verb.name} -d '{described}'"
    for name, options in words().items():
        condition = f"complete -c cocosearchctl -n '__fish_seen_subcommand_from {name}'"
        for option in options:
            yield (
                f"{condition} -l {option.removeprefix('--')}"
                if option.startswith("--")
                else f"{condition} -a {option}"
            )
        if name in TAKES_NAME:
            yield f"{condition} -a '({NAMES})'"
    yield "complete -c cocosearchctl -n '__fish_seen_subcommand_from up' -F"
    in_query = "__fish_seen_subcommand_from query"
    yield f"complete -c cocosearchctl -n '{in_query}' -l index -x -a '({NAMES})'"
