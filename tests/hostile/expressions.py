"""Finds every regular expression of both packages and attacks it with strings made from its own
parse tree.

`python -m tests.hostile.expressions [--long] [NAME...]` prints lines of JSON: the names of all that
are attacked, each name when its turn comes, and each attack that grows faster than its text. It
runs in a process of its own: an exponential expression does not come back by itself.
"""

import argparse
import ast
import dataclasses
import functools
import importlib
import importlib.util
import json
import math
import pkgutil
import random
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]  # the parse tree of `re` has no public door
from re import _parser  # type: ignore[attr-defined]
from types import FrameType, ModuleType
from typing import Any, AnyStr

import cocosearch_ipc
import cocosearchd
from tests.machine_speed import slowness

PACKAGES: tuple[ModuleType, ...] = (cocosearchd, cocosearch_ipc)
ROOTS = tuple(Path(str(package.__file__)).parent for package in PACKAGES)
REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}
GROUPS = {op.SUBPATTERN: -1, op.ATOMIC_GROUP: None}
# Characters that stand for classes: letters, digits, blanks, brackets, marks, controls, beyond
# ASCII.
ALPHABET = "aZ_7 \t\n\r.,;:!?#@$%&*+-/\\=<>|~^`'\"()[]{}\x00\x1b\x7fé漢\u0301\udc80"
BREAKS = ("", "\n", "\x00", "!", "}")
# Characters. Quadratic work is seconds at the longest, linear work some milliseconds.
LENGTHS = (256, 4096, 32768)
SLOW_S, LIMIT_S = 0.02, 1.0  # per text: less is not looked at again, more is a failure
GROWTH = 2.2  # per doubling over two doublings: 2 is linear, 4 quadratic
STEEP = 3.0  # per doubling: no stretched run of linear work looks so twice
SHORTER, SHORTEST = 4, 16  # parts of a text that it is compared with: two and four doublings
# Expressions of tables, of which only `match` at the begin of a line is called.
MATCHED = {
    "cocosearchd.languages.syntax._NESTING[0]",
    "cocosearchd.languages.syntax._NESTING[2]",
    *(f"cocosearchd.search.reports.stack_frames._FUNCTIONS[{number}]" for number in range(6)),
}
# Expressions that are asked only of what cannot make them fall, and why that is.
EXCEPTIONS = {
    "cocosearchd.filters.globs._PART": "texts that end with `]`, so that each `[` has its end: see `_parts`",
}
EXCEPT_BELOW = {
    "cocosearchd.watching.ignore.default_patterns.": "rules of ignore files, which have tests of their own"
}
SHORT, LONG = 12, 2000  # attacks on one expression


@dataclasses.dataclass(frozen=True)
class Attack:
    """A text of any length: a prefix, a part that is repeated, a suffix."""

    prefix: str
    pump: str
    suffix: str

    def text(self, characters: int) -> str:
        return self.prefix + self.pump * max(1, characters // len(self.pump)) + self.suffix


class TimedOutError(Exception):
    """An expression took longer than `LIMIT_S`."""


def modules() -> Iterator[ModuleType]:
    """All modules of both packages but those that run when they are imported."""
    for package in PACKAGES:
        yield package
        for entry in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not entry.name.endswith("__main__") and (module := _imported(entry.name)):
                yield module


def _imported(name: str) -> ModuleType | None:
    """A module; None where a library is not installed and the module has no expressions."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        spec = importlib.util.find_spec(name)
        source = Path(str(spec and spec.origin)).read_text("utf-8")
        if str(error.name).startswith("cocosearch") or "import re\n" in source:
            raise
        return None


def expressions() -> dict[str, re.Pattern[Any]]:
    """Each distinct expression that a module, a class of it or a table in it holds, by the first
    place it is met at.
    """
    met = dict[re.Pattern[Any], str]()
    for module in modules():
        for name, value in vars(module).items():
            if not name.startswith("__"):
                for pattern in _within(value, module.__name__, set()):
                    met.setdefault(pattern, f"{module.__name__}.{name}")
    return _named(met)


def _named(met: dict[re.Pattern[Any], str]) -> dict[str, re.Pattern[Any]]:
    """Several expressions of one table are numbered."""
    places = defaultdict[str, list[re.Pattern[Any]]](list)
    for pattern, name in met.items():
        places[name].append(pattern)
    return {
        name if len(patterns) == 1 else f"{name}[{number}]": pattern
        for name, patterns in places.items()
        for number, pattern in enumerate(patterns)
    }


def _within(value: object, module: str, visited: set[int]) -> Iterator[re.Pattern[Any]]:
    """The expressions that can be reached from a value through tables, objects and methods."""
    if id(value) in visited:
        return
    visited.add(id(value))
    if isinstance(value, re.Pattern):
        yield value
        return
    for part in _parts(value, module):
        yield from _within(part, module, visited)


def _parts(value: object, module: str) -> Iterable[object]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, type):
        return list(vars(value).values()) if value.__module__ == module else ()
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    is_ours = type(value).__module__.split(".")[0] in {package.__name__ for package in PACKAGES}
    if is_ours and hasattr(value, "__dict__"):
        return list(vars(value).values())
    owner = getattr(value, "__self__", None)  # of a bound method
    return [owner] if isinstance(owner, re.Pattern) else ()


@functools.cache
def methods_by_name(file: str) -> dict[str, frozenset[str]]:
    """By name: which methods of it are called in a module; "" where it is used in another way."""
    uses = defaultdict[str, set[str]](set)
    nodes = list(ast.walk(ast.parse(Path(file).read_text("utf-8"))))
    owners = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            uses[node.value.id].add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in owners:
            uses[node.id].add("")
    return {name: frozenset(methods) for name, methods in uses.items()}


def runners(name: str, pattern: re.Pattern[Any]) -> list[Callable[[Any], object]]:
    """In which ways the expression is put to use: at one place of a text only where no other way
    occurs.
    """
    module, _, variable = name.rpartition(".")
    file = str(sys.modules[module].__file__)
    methods = methods_by_name(file).get(variable, frozenset({""}))
    if name in MATCHED or (variable.startswith("_") and methods <= {"match", "fullmatch"}):
        return [getattr(pattern, method) for method in sorted(methods - {""}) or ["match"]]
    return [lambda text: sum(1 for _ in pattern.finditer(text))]


class Samples:
    """Texts from a parse tree, made by one random generator."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._groups = dict[int, str]()

    def text(self, items: Iterable[Any], *, reach: int = 0) -> str:
        """A text that the items match, as far as what they look ahead for allows."""
        return "".join(self._item(kind, value, reach) for kind, value in items)

    def _item(self, kind: Any, value: Any, reach: int) -> str:
        if kind is op.LITERAL:
            return chr(value)
        if kind in (op.NOT_LITERAL, op.IN, op.ANY):
            return self._random.choice(characters(kind, value) or ["a"])
        if kind is op.BRANCH:
            return self.text(self._random.choice(value[1]), reach=reach)
        if kind in REPEATS:
            low, high, body = value
            times = min(high, max(low, self._random.choice((low, 1, 2))))
            return "".join(self.text(body, reach=reach) for _ in range(times))
        if kind in GROUPS:
            return self._group(kind, value, reach)
        return self._groups.get(value, "") if kind is op.GROUPREF else ""

    def _group(self, kind: Any, value: Any, reach: int) -> str:
        body = value if kind is op.ATOMIC_GROUP else value[-1]
        text = self.text(body, reach=reach)
        if kind is op.SUBPATTERN and value[0] is not None:
            self._groups[value[0]] = text
        return text

    def choice(self, values: Any) -> Any:
        return self._random.choice(values)


@functools.lru_cache(10_000)
def _characters(source: str) -> tuple[str, ...]:
    pattern = re.compile(source, re.DOTALL)
    return tuple(character for character in ALPHABET if pattern.fullmatch(character))


def characters(kind: Any, value: Any) -> list[str]:
    """Those of `ALPHABET`, and those named, that one item matches."""
    if kind is op.ANY:
        return list(ALPHABET)
    if kind is op.NOT_LITERAL:
        return [character for character in ALPHABET if ord(character) != value]
    negated = value[0][0] is op.NEGATE
    chosen = set[str]()
    for part, what in value:
        if part is op.LITERAL:
            chosen.add(chr(what))
        elif part is op.RANGE:
            chosen |= {chr(what[0]), chr(what[1])} | {
                c for c in ALPHABET if what[0] <= ord(c) <= what[1]
            }
        elif part is op.CATEGORY:
            chosen |= {character for character in ALPHABET if _in_category(what, character)}
    return sorted(set(ALPHABET) - chosen if negated else chosen)


_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d", op.CATEGORY_NOT_DIGIT: r"\D", op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S", op.CATEGORY_WORD: r"\w", op.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _in_category(category: Any, character: str) -> bool:
    return character in _characters(_CATEGORIES[category])


def attacks(pattern: re.Pattern[Any], most: int) -> list[Attack]:
    """Up to `most` distinct attacks: pumps of each repeat, of what leads to it, of pairs of
    neighbours.
    """
    source = pattern.pattern
    tree = _parser.parse(source, pattern.flags & ~re.DEBUG)
    samples = Samples(len(source))
    paths = list(_repeats(list(tree), []))
    letters = sorted(set(ALPHABET) & set(_mentioned(tree))) or ["a"]
    attacks = dict[Attack, None]()
    for _ in range(20 * most):
        if len(attacks) >= most:
            break
        attacks[_attack(samples, paths, letters)] = None
    fixed = {
        Attack("", pump, suffix): None for pump in _whole(samples, paths) for suffix in ("", "\x00")
    }
    return [attack for attack in {**fixed, **attacks} if attack.pump]


def _whole(samples: Samples, paths: list[tuple[list[Any], Any]]) -> list[str]:
    """Begins of a match again and again, without an end."""
    return [samples.text(prefix) for prefix, _ in paths] + [
        samples.text(prefix) + samples.text(body) for prefix, body in paths
    ]


def _attack(samples: Samples, paths: list[tuple[list[Any], Any]], letters: list[str]) -> Attack:
    repeated_prefix, body = samples.choice(paths) if paths else ([], [])
    prefix, inner = samples.text(repeated_prefix), samples.text(body) or "a"
    other_body = samples.text((samples.choice(paths) if paths else ([], []))[1])
    mark = samples.choice(letters)
    pump = samples.choice(
        [
            inner,
            inner,
            prefix + inner,
            inner + other_body,
            inner + mark,
            mark,
            prefix + other_body,
            inner + "\n",
            prefix + inner + "\n",
            prefix,
        ]
    )
    return Attack(
        samples.choice(["", prefix, prefix, prefix + other_body]), pump, samples.choice(BREAKS)
    )


def _repeats(items: list[Any], prefix: list[Any]) -> Iterator[tuple[list[Any], Any]]:
    """Each repeat of any size with the items that lead to it."""
    for kind, value in items:
        if kind in REPEATS:
            if value[1] == op.MAXREPEAT or value[1] > 8:
                yield prefix, list(value[2])
            yield from _repeats(list(value[2]), prefix)
        elif kind in GROUPS:
            yield from _repeats(list(value if kind is op.ATOMIC_GROUP else value[-1]), prefix)
        elif kind is op.BRANCH:
            for alternative in value[1]:
                yield from _repeats(list(alternative), prefix)
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            yield from _repeats(list(value[1]), prefix)
        prefix = [*prefix, (kind, value)]


def _mentioned(items: Any) -> Iterator[str]:
    """Characters that the expression tells from others."""
    for kind, value in items:
        if kind is op.LITERAL:
            yield chr(value)
        elif kind in (op.IN, op.NOT_LITERAL, op.ANY):
            yield from characters(kind, value)
        elif kind in REPEATS:
            yield from _mentioned(value[2])
        elif kind in GROUPS:
            yield from _mentioned(value if kind is op.ATOMIC_GROUP else value[-1])
        elif kind is op.BRANCH:
            for alternative in value[1]:
                yield from _mentioned(alternative)
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            yield from _mentioned(value[1])


def seconds(run: Callable[[Any], object], text: Any, limit_s: float | None = None) -> float:
    """CPU seconds of a run. Raises `TimedOutError` after `LIMIT_S` if no limit is given."""
    signal.setitimer(signal.ITIMER_PROF, limit_s or LIMIT_S)  # `re` looks for signals now and then
    try:
        began = time.process_time()
        run(text)
        return time.process_time() - began
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def growth(
    run: Callable[[Any], object], attack: Attack, encode: Callable[[str], Any]
) -> str | None:
    """Describe how the cost grows if that is faster than the text; else None."""
    for length in LENGTHS:
        try:
            if seconds(run, encode(attack.text(length))) < SLOW_S:
                continue
            ratio = _measure_lowest_ratio(run, attack, encode, length)
            is_steep = ratio > GROWTH**2 and _is_steep_over_four_doublings(
                run, attack, encode, length
            )
        except TimedOutError:
            if _is_over_limit(run, encode(attack.text(length))):
                return f"over {LIMIT_S:g} s at {length} characters"
            continue
        if is_steep:
            return f"{ratio:.1f} times the cost for 4 times the text, at {length} characters"
    return None


def _is_over_limit(run: Callable[[Any], object], text: Any) -> bool:
    """Run once more what was over the limit; a machine that is slow now has more time."""
    try:
        seconds(run, text, LIMIT_S * slowness())
    except TimedOutError:
        return True
    return False


def _is_steep_over_four_doublings(
    run: Callable[[Any], object], attack: Attack, encode: Callable[[str], Any], length: int
) -> bool:
    """Confirm a growth. Busy neighbours stretch long runs more than short ones, all the time: by a
    factor that is a small part of the growth over four doublings.
    """
    return _ratio(run, attack, encode, length, SHORTEST) > GROWTH**4


def _measure_lowest_ratio(
    run: Callable[[Any], object], attack: Attack, encode: Callable[[str], Any], length: int
) -> float:
    """Measure again what looks too steep: a busy machine stretches a run, but not each of five, nor
    two by so much that they look quadratic.
    """
    lowest_ratio = math.inf
    for number in range(5):
        lowest_ratio = min(lowest_ratio, _ratio(run, attack, encode, length, SHORTER))
        if lowest_ratio <= GROWTH**2 or (number and lowest_ratio > STEEP**2):
            break
    return lowest_ratio


def _ratio(
    run: Callable[[Any], object],
    attack: Attack,
    encode: Callable[[str], Any],
    length: int,
    part: int,
) -> float:
    """Divide the cost of a text by that of a part of it. The part runs so often that linear work takes
    as long in both: busy neighbours stretch a long run more than a short one.
    """

    def repeat(text: Any) -> None:
        for _ in range(part):
            run(text)

    short = min(seconds(repeat, encode(attack.text(length // part))) for _ in range(3)) / part
    return min(seconds(run, encode(attack.text(length))) for _ in range(2)) / max(short, 1e-4)


def encode_for(pattern: re.Pattern[AnyStr]) -> Callable[[str], Any]:
    if isinstance(pattern.pattern, bytes):
        return lambda text: text.encode("utf-8", "surrogatepass")
    return lambda text: text


def findings(name: str, pattern: re.Pattern[Any], most: int) -> Iterator[dict[str, str]]:
    """The first attack that each way of use falls to."""
    for run in runners(name, pattern):
        for attack in attacks(pattern, most):
            if cause := growth(run, attack, encode_for(pattern)):
                yield {
                    "name": name,
                    "cause": cause,
                    "attack": repr(attack),
                    "pattern": repr(pattern.pattern),
                }
                break


def is_excepted(name: str) -> bool:
    """Return whether an expression is not attacked."""
    return name in EXCEPTIONS or name.startswith(tuple(EXCEPT_BELOW))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGPROF, _stop)
    patterns = expressions()
    attacked = [name for name in patterns if not is_excepted(name)]
    print(json.dumps(options.names or attacked), flush=True)
    for name, pattern in patterns.items():
        if name in options.names if options.names else not is_excepted(name):
            print(json.dumps({"name": name}), flush=True)
            for finding in findings(name, pattern, LONG if options.long else SHORT):
                print(json.dumps(finding), flush=True)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TimedOutError


if __name__ == "__main__":
    main(sys.argv[1:])
