"""Splits a report into parts: title, prose, code, output, environment. Pure.

Authors of reports write Markdown or plain text. Each line belongs to one part. Time is linear in
the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cocosearchd.search.reports.json_logs import read_record

PartKind = Literal["title", "prose", "heading", "inline_code", "code", "output", "environment"]

# From this length on, a question of one line is read as a report.
MIN_REPORT = 300  # characters
MAX_HEADING = 200  # characters of a heading, or of a line about the environment
MAX_VERSION_WORDS = 6

_FENCE = re.compile(r"\s{0,3}(?:```+|~~~+)\s*([\w+.#-]*)")
_HEADING = re.compile(r"#{1,6}\s(.*)|\*\*([^*]{2,80})\*\*:?|__([^_]{2,80})__:?")
_UNDERLINE = re.compile(r"\s*(?:-{3,}|={3,})\s*$")
_COMMENT_MARKS = re.compile(r"<!--|-->")
_TAG = re.compile(
    r"</?(?:details|summary|p|br|pre|code|b|i|em|strong|sub|sup|kbd|li|ul|ol|h\d|table|tr|td|th|a|img)\b[^<>]{0,300}>",
    re.IGNORECASE,
)
_CHECKBOX = re.compile(r"\s*[-*]\s*\[[ xX]\]")
# A line that has only references: `Closes #12, #13 and owner/name#14.`
# Nothing is taken back: the address of one reference may hold those of the next.
_REFERENCE = (
    r"(?>(?:(?:[\w-]{1,40}/[\w.-]{1,100})?#|\bGH-|https?://\S{1,200}/(?:issues|pulls?)/)\d+\b)"
)
_REFERENCES = re.compile(
    rf"[-*\s]*+(?:(?:close|fix|resolve|ref|reference|see|part of|relate)\w{{0,3}}\b[\s:]*(?:to\s|also\s)?)?"
    rf"{_REFERENCE}(?:(?:[\s,;.&]|\band\b|\b(?:close|fix|resolve)\w{{0,3}}\b)*+{_REFERENCE})*+[\s.]*",
    re.IGNORECASE,
)
# Instructions of a project's template for the author of a change.
_INSTRUCTION = re.compile(
    r"\byour (?:pr|pull request)\b|\b(?:base|default|target) branch\b"
    r"|\bthanks? (?:you )?for (?:submitting|contributing|reporting|opening|filing)\b",
    re.IGNORECASE,
)
_INLINE = re.compile(r"``([^`\n]{1,300})``|`([^`\n]{1,300})`")
_PROMPT = re.compile(r"\s*(?:>>> ?|\.\.\. ?|In \[\d+\]: ?|\$ |# |> )")
_OUTPUT_LINE = re.compile(
    r"""\s*File\ "[^"\n]{1,300}",\ line\ \d+          # Python
    |\s*at\ .{1,300}:(?:[^\W\d_]{1,12}\ )?\d+(?::\d+)?\)?\s*$   # JavaScript, Java, C#
    |\s*\S{1,300}\.\w{1,5}:\d+(?::\d+)?(?::|\ |$)     # compilers, Go, Rust, Ruby, pytest
    |\s*\#\d+\ .{1,300}                               # PHP, gdb
    |\s*\S{1,300}\.\w{1,5}(?:\(|:\[)\d+(?:,\d+)?[)\]]   # MSVC, tsc, Maven
    |\s{1,8}at\ [^\s(]{1,300}\(.{0,300}\)\s*$          # C# and Java without lines
    |\s{0,8}\d{1,4}:\ [\w<][^\s(/\\]{0,200}::\S{1,100}$   # functions of Rust
    |[\w.~-]{1,100}(?:/[\w.~-]{1,100}){1,12}\.\(?\*?\w[^\s(]{0,100}\(.*\)\s*$   # functions of Go
    |goroutine\ \d+|Traceback\ \(most\ recent|Caused\ by:|Exception\ in\ thread|thread\ '.{1,80}'\ panicked
    |E\ {2,}\S|\[?(?:ERROR|WARN|WARNING|INFO|DEBUG|FATAL)\]?[:\s]""",
    re.VERBOSE,
)
_LINE_OF_FILE = re.compile(r"/[\w.-]{1,100}\.\w{1,6}:\d")
# A name and its version: `numpy 1.13.1`, `numpy: 1.13`, `python=3.8`, `sphinx==3.0`.
_VERSION = re.compile(r"[-*|]* ?[\w.\[\] +()-]{1,40}? ?(?:[:=|~]+| ) ?[vV]?\d+(?:\.\w+)+")
_ENVIRONMENT_NAMES = (
    *("OS", "Operating system", "Platform", "Python", "Node", "Browser", "Compiler", "GCC"),
    *("Linux", "Windows", "Darwin", "macOS", r"LC_\w+", "LANG", "LOCALE", "byteorder", "commit"),
    *("machine", "processor", "executable", "libhdf5", "libnetcdf", "python-bits", "OS-release"),
    *("System", "Versions?", "Backend", r"[\w .-]{1,30} version"),
)
_ENVIRONMENT_LINE = re.compile(
    rf"[-*|]* ?(?:{'|'.join(_ENVIRONMENT_NAMES)})\b[^.!?]{{0,120}}$", re.IGNORECASE
)
_ENVIRONMENT_HEADING = re.compile(
    r"(?:your |my |output of .*)?(?:environment|versions?|system|setup|installed|show_versions"
    r"|platform|package|operating|(?:\w{1,40} )?version(?:s| info\w*)?$|os$|dependencies"
    r"|pip (?:list|freeze))",
    re.IGNORECASE,
)
# Headings of issue templates: they name the kind of the next section, not its topic.
_TEMPLATE_WORDS = (
    *("describe the bug", "description", "bug (?:report|summary|description)", "possible"),
    *("steps?(?:/code)? to reproduce", "to reproduce", "how to reproduce", r"reproduc\w+"),
    *("expected", "actual", "observed", "current", "desired", "code (?:for|sample)", "minimal"),
    *("what (?:happened|did you|i did|were you|is)", "complete", "example", "additional"),
    *("context", "screenshots?", "anything else", "problem(?: description)?", "proposed"),
    *("solution", "suggested", "summary", "details?", "checklist", "logs?", "relevant", "error"),
    *("traceback", "output", "motivation", "feature request", "is your feature", "new issue"),
    *("describe (?:the|alternatives)", "mve", "mcve", "your project", "severity"),
    # of pull requests: a request is often written as a pull request
    *("before submitting", "please (?:make sure|note)", "prerequisites", "(?:pull request|pr)$"),
    *(
        r"tests? and lint\w*",
        "types? of change",
        "(?:what|which) (?:kind|type|issue)",
        "validations",
    ),
    *("how has this been tested", "special notes", "release notes?", "(?:issue|change) type$"),
    *("component name", "related issues?", "breaking change", "testing instructions"),
)
# The lookahead tests the first letter before the words: three times as fast.
_TEMPLATE = re.compile(rf"(?<!\w)(?=[a-z])(?:{'|'.join(_TEMPLATE_WORDS)})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class QuestionPart:
    """A part of a report. `line` is its first line, from 1.

    `is_section` is True for the heading of a section, which cannot be the title of the report.
    """

    kind: PartKind
    text: str
    line: int
    is_section: bool = False


def split_question(text: str) -> tuple[QuestionPart, ...]:
    """Split a question into parts, in order. Repeated parts count once."""
    parts = list(_split_lines(_without_comments(text)))
    return tuple(_take_title(list(_without_repeats(parts))))


def _without_comments(text: str) -> str:
    """Remove HTML comments, which are instructions of templates; line numbers do not change."""
    pieces = list[str]()
    depth = 0
    end = 0
    for mark in _COMMENT_MARKS.finditer(text):
        piece = text[end : mark.start()]
        pieces.append("\n" * piece.count("\n") if depth else piece)
        depth = 1 if mark[0] == "<!--" else 0
        end = mark.end()
    pieces.append(text[end:])  # an open comment is text
    return "".join(pieces)


def _split_lines(text: str) -> Iterator[QuestionPart]:
    """Yield the parts of a text: each fenced block, heading and line."""
    block = list[str]()
    block_line = 0
    fence: str | None = None
    in_environment = False
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        record_parts = () if mark else _record_parts(line, number)
        if record_parts:
            yield from record_parts
            continue
        if fence is not None:
            if mark and not mark[1]:
                yield _block_part(block, fence, block_line, in_environment=in_environment)
                fence = None
            else:
                block.append(line)
            continue
        if mark:
            fence = mark[1].lower()
            block = []
            block_line = number + 1
            continue
        heading = _HEADING.fullmatch(line.strip()) if len(line) <= MAX_HEADING else None
        if heading:
            title = next(group for group in heading.groups() if group is not None).strip(" #")
            in_environment = bool(_ENVIRONMENT_HEADING.match(title.strip()))
            is_template = in_environment or _TEMPLATE.search(title)
            kind: PartKind = "heading" if is_template else "prose"
            yield QuestionPart(kind, title, number, is_section=line.lstrip().startswith("##"))
        elif line.strip() and not _UNDERLINE.match(line):
            yield from _line_parts(line, number, in_environment=in_environment)
    if fence is not None:
        yield _block_part(block, fence, block_line, in_environment=in_environment)


def _record_parts(line: str, number: int) -> tuple[QuestionPart, ...]:
    """Return the parts of a record of a log in JSON, () for another line.

    A message counts as if its author had quoted it; the fields around it count as environment.
    """
    record = read_record(line)
    if record is None:
        return ()
    return (
        *(QuestionPart("inline_code", message, number) for message in record.messages),
        *(QuestionPart("prose", message, number) for message in record.messages),
        *(QuestionPart("output", trace, number) for trace in record.traces),
        QuestionPart("environment", line, number),
    )


def _line_parts(line: str, number: int, *, in_environment: bool) -> Iterator[QuestionPart]:
    """Yield the parts of a line outside of blocks."""
    if in_environment or _is_form(line):
        yield QuestionPart("environment", line, number)
    elif _is_output(line):
        yield QuestionPart("output", line, number)
    elif _is_environment(line):
        yield QuestionPart("environment", line, number)
    elif _PROMPT.match(line) or line.startswith(("    ", "\t")):
        yield QuestionPart("code", line, number)
    else:
        plain = _TAG.sub(" ", line)
        for match in _INLINE.finditer(plain):
            yield QuestionPart("inline_code", match[1] or match[2], number)
        yield QuestionPart("prose", _INLINE.sub(lambda match: match[1] or match[2], plain), number)


def _is_form(line: str) -> bool:
    """Return True if a line belongs to a template, or only refers to other reports."""
    is_reference = _REFERENCES.fullmatch(line[:MAX_HEADING]) is not None
    return is_reference or bool(_CHECKBOX.match(line)) or bool(_INSTRUCTION.search(line))


def _is_output(line: str) -> bool:
    """Return True if a program printed a line.

    A stack frame with a version in its path also looks like an environment line.
    """
    return bool(_OUTPUT_LINE.match(line)) or (
        _is_environment(line) and bool(_LINE_OF_FILE.search(line[:MAX_HEADING]))
    )


def _is_environment(line: str) -> bool:
    """Return True if a line names a version or a system."""
    words = line[:MAX_HEADING].split()
    text = " ".join(words)
    return bool(_ENVIRONMENT_LINE.match(text)) or (
        bool(_VERSION.match(text)) and len(words) <= MAX_VERSION_WORDS
    )


def _block_part(
    lines: Sequence[str], language: str, number: int, *, in_environment: bool
) -> QuestionPart:
    """Make the part of a fenced block. `language` is the language of its fence."""
    text = "\n".join(lines)
    written = [line for line in lines if line.strip()]
    unprinted = [line for line in written if not _is_output(line)]
    frames = len(written) - len(unprinted)
    versions = sum(map(_is_environment, unprinted))
    if written and (in_environment or versions * 2 > len(written)):
        return QuestionPart("environment", text, number)
    is_output = (
        "traceback" in language
        or frames * 4 > len(written)
        or language in {"console", "text", "log", "pytb"}
    )
    return QuestionPart("output" if is_output else "code", text, number)


def _without_repeats(parts: Sequence[QuestionPart]) -> Iterator[QuestionPart]:
    """Yield parts without repeats: some texts contain a report twice."""
    earlier_keys = set[tuple[str, str]]()
    for part in parts:
        key = part.kind, " ".join(part.text.split())
        if key not in earlier_keys:
            earlier_keys.add(key)
            yield part


def _take_title(parts: Sequence[QuestionPart]) -> Iterator[QuestionPart]:
    """Make the first part of prose the title.

    A heading of a section becomes the title only if there is no other prose.
    """
    prose = [part for part in parts if part.kind == "prose"]
    title = next((part for part in prose if not part.is_section), next(iter(prose), None))
    for part in parts:
        yield QuestionPart("title", part.text, part.line) if part is title else part
