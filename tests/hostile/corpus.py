"""A seeded corpus of hostile files: names, contents, encodings, depth, links, devices, in every
language.

`cases(seed, size_bytes)` yields more than 1,500 cases; the same seed yields the same bytes. A case
writes files below a directory of its own and says whether a query for its marker, a word no other
case has, must find it.
"""

import os
import random
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cocosearchd.indexing.pipeline.skip_rules import (
    MINIFIED_LINE_BYTES,
    MINIFIED_MIN_BYTES,
    content_skip_reason,
)
from cocosearchd.languages.language_table import LanguageInfo, languages
from cocosearchd.languages.syntax import MAX_LINE_BYTES

Outcome = Literal["searchable", "left out", "either"]
Writer = Callable[[bytes], None]

_SAMPLES = Path(__file__).parent.parent / "languages" / "cases" / "source"
_PLAIN = b"def plain_function(value):\n    return [value, (value + 1), {'key': value}]\n\n"
_LONGEST_NAME = 255  # bytes, of ext4, XFS, tmpfs and APFS


@dataclass(frozen=True, slots=True)
class Case:
    """One hostile input. `path` is relative to the root; `write` gets the absolute path of it."""

    group: str
    name: str
    path: bytes
    write: Writer
    outcome: Outcome
    marker: str = ""


def cases(seed: int, size_bytes: int) -> Iterator[Case]:
    """Every case of a seed. `size_bytes` is the length that contents are pumped to."""
    yield from _content_cases(seed, size_bytes)
    yield from _minified_cases(size_bytes)
    yield from _name_cases()
    yield from _encoding_cases()
    yield from _kind_cases()
    yield from _depth_cases()


def _writer(content: bytes) -> Writer:
    def write(path: bytes) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)

    return write


# -- contents: every language, every shape


def _content_cases(seed: int, size_bytes: int) -> Iterator[Case]:
    for language in languages():
        sample = _sample(language)
        for shape, build in _SHAPES.items():
            rng = random.Random(f"{seed} {language.name} {shape}")
            marker = _marker("content", f"{language.name}{shape}")
            body = _folded(rng, build(rng, sample, size_bytes))
            content = f"{marker}\n".encode() + body
            path = f"content/{shape}/{language.name}/{_file_name(language)}".encode()
            yield Case(
                "content", f"{shape} {language.name}", path, _writer(content), "searchable", marker
            )


def _folded(rng: random.Random, content: bytes) -> bytes:
    """Break lines that are so long that the file would be left out as minified.

    At most half of the bytes stay in long lines: just below the length that a parser gets, or in
    one line.
    """
    if content_skip_reason(content, len(content)) is None:
        return content
    half = len(content) // 2
    columns = rng.choice((MINIFIED_LINE_BYTES - 1, MAX_LINE_BYTES - 1, half))
    pieces = [content[start : start + columns] for start in range(0, half, columns)]
    rest = content[sum(map(len, pieces)) :]
    short = MINIFIED_LINE_BYTES - 1
    pieces += [rest[start : start + short] for start in range(0, len(rest), short)]
    long_bytes = sum(len(piece) for piece in pieces if len(piece) > short)
    padding = b"\n" * max(0, 2 * long_bytes - len(content))
    return b"\n".join(pieces) + b"\n" + padding


def _minified_cases(size_bytes: int) -> Iterator[Case]:
    """Yield the contents that are one huge line, which are left out."""
    for shape, unit in {"code": b"x = 1; ", "word": b"a", "blanks": b" ", "returns": b"\r"}.items():
        content = unit * (max(size_bytes, 2 * MINIFIED_MIN_BYTES) // len(unit))
        path = f"minified/{shape}/sample.js".encode()
        yield Case("minified", shape, path, _writer(content), "left out")


def _marker(group: str, name: str) -> str:
    letters = "".join(character for character in name.lower() if character.isalnum())
    return f"zq{group}{letters}"


def _file_name(language: LanguageInfo) -> str:
    return f"sample{language.extensions[0]}"


def _sample(language: LanguageInfo) -> bytes:
    for extension in language.extensions:
        for path in sorted(_SAMPLES.rglob(f"*{extension}")):
            return path.read_bytes()
    return _PLAIN


def _pumped(unit: bytes, size_bytes: int, columns: int = 80) -> bytes:
    """Repeat a unit in lines of about `columns` bytes, so that no line is too long to be parsed."""
    line = unit * max(1, columns // len(unit)) + b"\n"
    return line * max(1, size_bytes // len(line))


def _tokens(rng: random.Random, sample: bytes, size_bytes: int) -> bytes:
    """Real tokens of the language in random order."""
    words = sample.split() or [b"x"]
    output = bytearray()
    while len(output) < size_bytes:
        output += b" ".join(rng.choices(words, k=12)) + b"\n"
    return bytes(output)


def _mutated(rng: random.Random, sample: bytes, size_bytes: int) -> bytes:
    """The sample again and again, with a random character in about each twentieth place; no NUL."""
    output = bytearray((sample * (size_bytes // max(1, len(sample)) + 1))[:size_bytes])
    for _ in range(len(output) // 20):
        output[rng.randrange(len(output))] = rng.randrange(1, 128)
    return bytes(output)


def _distinct_words(rng: random.Random, _: bytes, size_bytes: int) -> bytes:
    count = size_bytes // 12
    return b" ".join(b"w%09x" % rng.randrange(1 << 36) + b"\n" * (not i % 8) for i in range(count))


_COMMENTS = (b"#", b"//", b"--", b";", b"%", b"(*", b"/*", b"<!--", b"'", b'"""')
_SHAPES: dict[str, Callable[[random.Random, bytes, int], bytes]] = {
    "tokens": _tokens,
    "mutated": _mutated,
    "truncated": lambda rng, sample, _: sample[: rng.randrange(len(sample) + 1)],
    "distinct_words": _distinct_words,
    "brackets": lambda _, __, size: (
        _pumped(b"(", size // 3) + _pumped(b"[", size // 3) + _pumped(b"{", size // 3)
    ),
    "angles": lambda _, __, size: _pumped(b"a<", size),
    "pointers": lambda _, __, size: (
        b"char " + b", ".join(b"*p%d" % i for i in range(size // 8)) + b";\n"
    ),
    "stars": lambda _, __, size: b"/*\nint " + _pumped(b"** ", size) + b"*/\n",
    "one_line": lambda _, __, size: b"x = 1; " * (size // 7),
    "one_word": lambda _, __, size: b"a" * size,
    "blanks": lambda _, __, size: b" " * size,
    "tabs": lambda _, __, size: b"\t" * size,
    "line_ends": lambda _, __, size: b"\n" * size,
    "carriage_returns": lambda _, sample, size: (sample * (size // len(sample) + 1))[:size].replace(
        b"\n", b"\r"
    ),
    "unclosed": lambda _, sample, __: (
        sample + b"\n/* <!-- \"\"\" ''' ` {{ {% (* #| --[[ =begin <<EOF\n" + sample
    ),
    "quotes": lambda _, __, size: _pumped(b"'\"`", size),
    "backslashes": lambda _, __, size: _pumped(b"\\", size),
    "continuations": lambda _, __, size: b"a \\\n" * (size // 4),
    "dashes": lambda _, __, size: _pumped(b"-", size // 2) + _pumped(b"=", size // 2),
    "decorators": lambda _, __, size: _pumped(b"@a.b ", size),
    "indents": lambda _, __, size: b"".join(
        b" " * i + b"if a:\n" for i in range(min(400, int((2 * size) ** 0.5)))
    ),
    "comments": lambda _, __, size: (
        b"".join(mark + b" words of a comment\n" for mark in _COMMENTS) * (size // 200)
    ),
    "definitions": lambda _, __, size: b"".join(
        b"def f%d(): pass\n" % i for i in range(size // 18)
    ),
    "templates": lambda _, __, size: _pumped(b"{{ a | b }} {% c %} ${d} ", size),
}


# -- names


_NAMES: dict[str, bytes] = {
    "newline": b"a\nb.py",
    "carriage return": b"a\rb.py",
    "tab": b"a\tb.py",
    "escape": b"\x1b[2J\x1b]0;title\x07.py",
    "delete": b"\x7f.py",
    "bidi override": "\u202egnp.py".encode(),
    "zero width": "a\u200bb\ufeff.py".encode(),
    "tag characters": "a\U000e0041.py".encode(),
    "invalid utf-8": b"\xff\xfe\xed\xa0\x80.py",
    "overlong utf-8": b"\xc0\xaf.py",
    "composed": "caf\u00e9.py".encode(),
    "decomposed": "cafe\u0301.py".encode(),
    "leading dash": b"-rf.py",
    "option": b"--limit=1.py",
    "blank": b" .py",
    "blanks around": b" a .py",
    "dots": b"...py",
    "only dots": b"....",
    "tilde": b"~root.py",
    "percent": b"%s%n%d.py",
    "braces": b"{0}{a.__class__}.py",
    "shell": b"$(touch ran)`id`;&|.py",
    "quotes": b"'\".py",
    "sql": b"'; drop table files; --.py",
    "like": b"100%_.py",
    "glob": b"[a-z]*?{b,c}.py",
    "glob open": b"[.py",
    "backslash": b"a\\b.py",
    "html": b"<img src=x onerror=alert(1)>.py",
    "markdown": b"](http:example.invalid)`.py",
    "fence": b"```.py",
    "colon": b"a.py:12:3.py",
    "url": b"http:%2f%2fexample.invalid.py",
    "longest": b"n" * (_LONGEST_NAME - 3) + b".py",
    "longest wide": "\u00fc".encode() * 126 + b".py",
    "git in other case": b".GIT.py",
    "git as a windows name": b"git~1.py",
    "emoji": "\U0001f469\u200d\U0001f4bb.py".encode(),
    "combining": b"a" + "\u0301".encode() * 100 + b".py",
    "windows device": b"CON.py",
    "stream": b"a.py::$DATA.py",
    "equals": b"COCOSEARCH_STATE_DIR=x.py",
}


def _name_cases() -> Iterator[Case]:
    for name, file_name in _NAMES.items():
        marker = _marker("name", name)
        # it has no type that is indexed
        outcome: Outcome = "either" if name == "only dots" else "searchable"
        path = b"names/%s/%s" % (name.replace(" ", "_").encode(), file_name)
        yield Case("names", name, path, _writer(f"{marker} = 1\n".encode()), outcome, marker)
        directory = b"directories/%s/file.py" % file_name
        inside = _marker("directory", name)
        yield Case(
            "names",
            f"directory {name}",
            directory,
            _writer(f"{inside} = 1\n".encode()),
            "searchable",
            inside,
        )


# -- encodings


def _encoding_cases() -> Iterator[Case]:
    text = "\n{} = 'h\u00e9llo w\u00f6rld \u4e16\u754c'\n"
    shapes: dict[str, tuple[Callable[[str], bytes], Outcome]] = {
        "utf-8 with a mark": (
            lambda word: b"\xef\xbb\xbf" + text.format(word).encode(),
            "searchable",
        ),
        "utf-16": (lambda word: text.format(word).encode("utf-16"), "either"),
        "utf-16 without a mark": (lambda word: text.format(word).encode("utf-16-le"), "either"),
        "utf-32": (lambda word: text.format(word).encode("utf-32"), "either"),
        "latin-1": (lambda word: text.format(word).encode("latin-1", "replace"), "searchable"),
        "shift-jis": (lambda word: text.format(word).encode("shift-jis", "replace"), "searchable"),
        "surrogates": (
            lambda word: text.format(word).encode() + b"\xed\xa0\x80\xed\xb0\x80\n",
            "searchable",
        ),
        "overlong": (
            lambda word: text.format(word).encode() + b"\xc0\xaf\xe0\x80\xaf\n",
            "searchable",
        ),
        "cut in a character": (
            lambda word: text.format(word).encode() + "\u4e16".encode()[:2],
            "searchable",
        ),
        "all bytes but nul": (
            lambda word: f"{word}\n".encode() + bytes(range(1, 256)) * 20,
            "either",
        ),
        "nul at the end": (lambda word: f"{word} = 1\n".encode() + b"\0", "either"),
        "nul at the start": (lambda word: b"\0" + f"{word} = 1\n".encode(), "left out"),
        "escapes": (
            lambda word: f"{word}\n".encode() + b"\x1b[2J\x1b]52;c;aGk=\x07" * 50,
            "searchable",
        ),
        "bidi": (
            lambda word: f"{word}\n".encode() + "\u202e\u2066 a \u2069\n".encode() * 200,
            "searchable",
        ),
        "combining": (
            lambda word: f"{word}\n".encode() + ("e" + "\u0301" * 99 + "\n").encode() * 50,
            "searchable",
        ),
        "line separators": (
            lambda word: f"{word}\n".encode() + "a\u2028b\u2029c\u0085\n".encode() * 500,
            "searchable",
        ),
        "private use": (
            lambda word: f"{word}\n".encode() + "\ue000\U0010ffff".encode() * 500,
            "searchable",
        ),
        "fences": (
            lambda word: f"{word}\n".encode() + b"```\n" * 50 + b"`" * 200 + b"\n",
            "searchable",
        ),
    }
    for name, (build, outcome) in shapes.items():
        word = _marker("encoding", name)
        path = f"encodings/{name.replace(' ', '_')}.py".encode()
        yield Case("encodings", name, path, _writer(build(word)), outcome, word)


# -- kinds of files


def _fifo(path: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.mkfifo(path)


def _socket(path: bytes) -> None:
    """A bound socket; bound by its name in the directory, as a whole path may be too long for
    one.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(b"/proc/self/fd/%d/%s" % (directory, os.path.basename(path)))
    os.close(directory)


def _link_to(target: bytes) -> Writer:
    def write(path: bytes) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)

    return write


def _sparse(path: bytes) -> None:
    _writer(b"")(path)
    os.truncate(path, 1 << 40)


def _closed(path: bytes) -> None:
    _writer(b"closed_to_its_owner = 1\n")(path)
    os.chmod(path, 0)


def _link_loop(path: bytes) -> None:
    _link_to(os.path.basename(path))(path)


def _directory_named_like_a_file(path: bytes) -> None:
    os.makedirs(path)


def _kind_cases() -> Iterator[Case]:
    writers: dict[str, tuple[Writer, Outcome]] = {
        "fifo": (_fifo, "left out"),
        "socket": (_socket, "left out"),
        "link to zero": (_link_to(b"/dev/zero"), "left out"),
        "link to memory": (_link_to(b"/proc/self/mem"), "left out"),
        "link to passwd": (_link_to(b"/etc/passwd"), "left out"),
        "link up": (_link_to(b"../../.."), "left out"),
        "link to nothing": (_link_to(b"/nonexistent"), "left out"),
        "link with a long target": (_link_to(b"a/" * 2000), "left out"),
        "link loop": (_link_loop, "left out"),
        "sparse terabyte": (_sparse, "left out"),
        "closed": (_closed, "either"),  # root reads it all the same
        "directory": (_directory_named_like_a_file, "left out"),
        "empty": (_writer(b""), "either"),
    }
    for name, (write, outcome) in writers.items():
        yield Case("kinds", name, f"kinds/{name.replace(' ', '_')}.py".encode(), write, outcome)


# -- depth


def _deep(path: bytes) -> None:
    """Make each directory from within the one above it: the whole path may be longer than the
    kernel takes.
    """
    *directories, name = path.split(b"/")[1:]
    handle = os.open(b"/", os.O_RDONLY | os.O_DIRECTORY)
    for directory in directories:
        if not _exists(directory, handle):
            os.mkdir(directory, dir_fd=handle)
        below = os.open(directory, os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
        os.close(handle)
        handle = below
    file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=handle)
    os.write(file, f"{_marker('depth', str(len(directories)))} = 1\n".encode())
    os.close(file)
    os.close(handle)


def _exists(name: bytes, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _depth_cases() -> Iterator[Case]:
    shapes: dict[str, tuple[bytes, int, Outcome]] = {
        "100 directories": (b"d", 100, "searchable"),
        "1,000 directories": (b"d", 1000, "either"),
        "1,250 directories": (b"e", 1250, "either"),
        "3,000 directories": (b"f", 3000, "left out"),
        "40 long names": (b"g" * 250, 40, "left out"),
    }
    for name, (directory, depth, outcome) in shapes.items():
        yield Case(
            "depth", name, b"depth/" + b"/".join([directory] * depth) + b"/f.py", _deep, outcome
        )
