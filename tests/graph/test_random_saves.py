"""Saves of random TypeScript and Go: answers equal those of a graph that is built afresh."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import pytest

from tests.graph.test_use_succession import Saves, edit

SEEDS = range(6)
SAVES = 4
LINES = 24  # about as many as a file has


@dataclass(frozen=True)
class Grammar:
    """Templates of code in one language. Each `#` stands for a number from 0 to 2."""

    paths: Sequence[str]
    header: Callable[[str], str]  # of the file at a path
    imports: Sequence[str]
    calls: Sequence[str]
    definitions: Sequence[str]  # each `@` stands for a call
    new_lines: Sequence[str]
    fixed_files: Mapping[str, str]


TYPESCRIPT = Grammar(
    paths=("m0.ts", "m1.ts", "lib/m2.ts"),
    header=lambda path: "",
    imports=(
        'import { f# } from "./m#";\n',
        'import { f# as g# } from "./m#";\n',
        'import { C# } from "./m#";\n',
        'import { C#, f# } from "./lib/m2";\n',
        'import { C# } from "../m#";\n',
        'import D# from "./m#";\n',
        'import * as m# from "./m#";\n',
        'export * from "./m#";\n',
        'export { f# } from "./lib/m2";\n',
    ),
    calls=("f#();", "g#();", "m#.f#();", "new C#().f#();", "x.f#();", "x.a.f#();", "new D#();"),
    definitions=(
        "export function f#(x: C#) {\n  @\n  @\n}\n",
        "export const f# = (x: C#): C# => {\n  @\n  return new C#();\n};\n",
        "export default class C# {\n  f#() {\n    @\n  }\n}\n",
        "export class C# extends C# {\n  a = new C#();\n  f#(x: C#) {\n    this.f#();\n    @\n  }\n}\n",
        "export interface C# {\n  a: C#;\n  f#(): void;\n}\n",
        "export type C# = C#;\n",
    ),
    new_lines=(
        "// a comment",
        "",
        "  @",
        "@",
        "  const x = new C#();",
        "  a: C#;",
        'import { f# as g# } from "./m#";',
        'export * from "./m#";',
        "export function f#(x: C#) {}",
        "export class C# extends C# {",
    ),
    fixed_files={},
)
GO = Grammar(
    paths=("a/m0.go", "a/m1.go", "b/m2.go"),
    header=lambda path: f"package {path[0]}\n\n",
    imports=(
        'import "example.com/app/a"\n',
        'import "example.com/app/b"\n',
        'import z "example.com/app/a"\n',
        'import . "example.com/app/b"\n',
    ),
    calls=("F#()", "a.F#()", "b.F#()", "z.F#()", "x.F#()", "x.A.F#()", "C#{}.F#()", "NewC#().F#()"),
    definitions=(
        "func F#(x C#) {\n\t@\n\t@\n}\n",
        "func NewC#() *C# {\n\t@\n\treturn &C#{}\n}\n",
        "func (x *C#) F#(y C#) {\n\t@\n\ty.F#()\n}\n",
        "type C# struct {\n\tC#\n\tA a.C#\n}\n",
        "type C# interface {\n\tF#()\n}\n",
    ),
    new_lines=(
        "// a comment",
        "",
        "\t@",
        "\tx := C#{}",
        "\tx := NewC#()",
        "\tA C#",
        'import z "example.com/app/b"',
        "func F#(x C#) {}",
        "func (x *C#) F#() {}",
        "type C# struct {",
    ),
    fixed_files={"go.mod": "module example.com/app\n\ngo 1.22\n"},
)
GRAMMARS = {"typescript": TYPESCRIPT, "go": GO}


class RandomCode:
    """Code of one language, made at random from a seed."""

    def __init__(self, grammar: Grammar, seed: int) -> None:
        self._grammar = grammar
        self._random = Random(seed)

    def files(self) -> dict[str, str]:
        """Return the texts of a project by path."""
        return {**self._grammar.fixed_files, **{path: self._file(path) for path in self.paths()}}

    def paths(self) -> Sequence[str]:
        """Return the paths of files that may be saved."""
        return self._grammar.paths

    def edit(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return a changed file: a line is new or replaced."""
        path = self._random.choice(self.paths())
        new_line = self._fill(self._grammar.new_lines)
        line, replaces = self._random.randrange(LINES), self._random.random() < 0.5
        return {path: edit(texts[path], line, new_line, replaces=replaces)}

    def _file(self, path: str) -> str:
        imports = [self._fill(self._grammar.imports) for _ in range(self._random.randrange(4))]
        definitions = [
            self._fill(self._grammar.definitions) for _ in range(self._random.randrange(2, 6))
        ]
        return "".join((self._grammar.header(path), *imports, *definitions))

    def _fill(self, templates: Sequence[str]) -> str:
        """Return a random template with calls and numbers in it."""
        parts = self._random.choice(templates).split("@")
        calls = [self._random.choice(self._grammar.calls) for _ in parts[1:]]
        text = parts[0] + "".join(map("".join, zip(calls, parts[1:], strict=True)))
        start, *rest = text.split("#")
        return start + "".join(f"{self._random.randrange(3)}{part}" for part in rest)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("language", sorted(GRAMMARS))
def test_answers_after_random_saves_are_those_of_a_graph_built_afresh(
    language: str, seed: int
) -> None:
    code, saves = RandomCode(GRAMMARS[language], seed), Saves()
    texts = code.files()
    saves.save(texts)
    saves.check()
    for _ in range(SAVES):
        changed = code.edit(texts)
        texts |= changed
        saves.save(changed)
        saves.check()
