"""Definitions of files with code that the grammar of TypeScript cannot read."""

import pytest

from cocosearchd.languages.parse import parse
from cocosearchd.languages.patterns.grammar_gaps import bridge_gaps

OVERLOADS = """export interface Handler<E> {
  // one
  <A>(a: A): R<A>

  <
    A,
    B = A,
  >(a: A, b: B): Promise<
    B
  >
  /** three */
  <C>(c: C): string // end
  <D>(d: D): void
}
export type Later = { a: string }
"""
VARIANCE = """export interface Box<out T = unknown, in out U extends T = T, in V = U> { a: T }
export interface Wide<
  out Output = unknown,
  in Input = unknown,
> { b: Output }
export type Later = string
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [(OVERLOADS, ["Handler", "Later"]), (VARIANCE, ["Box", "Wide", "Later"])],
    ids=["call signatures", "variance"],
)
def test_gaps_are_bridged(text: str, names: list[str]) -> None:
    parsed = parse("a.ts", text.encode())
    assert parsed.report.status == "ok"
    assert [symbol.name for symbol in parsed.symbols] == names
    later = parsed.symbols[-1]
    assert text[later.start_byte : later.end_byte].startswith("export type Later")


@pytest.mark.parametrize("text", [OVERLOADS, VARIANCE, "a\n <", "<\n <x\n\n <y"])
def test_texts_keep_their_length_and_lines(text: str) -> None:
    data = text.encode()
    bridged = bridge_gaps("typescript", "typescript", data)
    assert len(bridged) == len(data)
    assert bridged.count(b"\n") == data.count(b"\n")
    assert bridge_gaps("python", "python", data) is data


def test_lines_of_jsx_and_values_stay() -> None:
    text = b"const a = (\n  <div>\n  <b/>\n  </div>)\nconst x =\n  <T>(y: T) => y\nfor (k in Obj) { }\n"
    assert bridge_gaps("typescript", "tsx", text) == text
    assert bridge_gaps("typescript", "typescript", text[36:]) == text[36:]
