"""Throughput of parse + chunk against CocoIndex's plain splitter on the same files, in MB per CPU
second; parse health.

    python benchmarks/languages.py DIR [DIR ...] [--by-language] [--no-splitter]

Files of unknown type, binary, minified or larger than 1 MiB are left out, as they are when
indexing. Every chunk is checked: in bounds, in order, nothing but blanks between two chunks, none
over the hard cap.
"""

import argparse
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline import recursive_chunker
from cocosearchd.indexing.pipeline.chunker import HARD_CAP, ChunkLimits, chunk_file
from cocosearchd.indexing.pipeline.skip_rules import content_skip_reason
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages import detect
from cocosearchd.languages.parse import Parsed, parse
from cocosearchd.model import Chunk

LIMIT = 1 << 20
DEFINITIONS, RECURSIVE = chunker_limits(IndexingSettings()), ChunkLimits("recursive", 1000, 300)


@dataclass
class Figures:
    """Sums over files. Times are CPU seconds."""

    files: int = 0
    size: int = 0
    chunks: int = 0
    symbols: int = 0
    parsing: float = 0.0
    chunking: float = 0.0
    splitting: float = 0.0
    split: int = 0
    status: Counter[str] = field(default_factory=Counter)

    def add(self, figures: "Figures") -> None:
        """Adds the sums of another."""
        for name in (
            "files",
            "size",
            "chunks",
            "symbols",
            "parsing",
            "chunking",
            "splitting",
            "split",
        ):
            setattr(self, name, getattr(self, name) + getattr(figures, name))
        self.status += figures.status

    def row(self, name: str) -> str:
        """One line of the table."""
        ours = self.parsing + self.chunking
        parsed = sum(count for status, count in self.status.items() if status != "no_grammar")
        healthy = self.status["ok"] + self.status["partial"]
        columns = [
            f"{name:22}{self.files:7}{self.size / 1e6:8.2f}{self.chunks:8}{self.symbols:8}",
            f"{self.size / 1e6 / max(ours, 1e-9):9.2f}",
            f"{self.size / 1e6 / self.splitting:9.2f}{ours / self.splitting:7.2f}"
            if self.splitting
            else " " * 16,
            f"{100 * healthy / parsed:8.1f}%" if parsed else "       -",
            "  " + " ".join(f"{status}={count}" for status, count in sorted(self.status.items())),
        ]
        return "".join(columns)


def check(data: bytes, chunks: tuple[Chunk, ...]) -> None:
    """Raises AssertionError unless the chunks cover the file in order within bounds."""
    covered_end = 0
    for chunk in chunks:
        assert covered_end <= chunk.start_byte < chunk.end_byte <= len(data), chunk
        assert not data[covered_end : chunk.start_byte].strip(), chunk
        assert chunk.end_byte - chunk.start_byte <= HARD_CAP * DEFINITIONS.chunk_size, chunk
        covered_end = chunk.end_byte
    assert not data[covered_end:].strip(), covered_end


def measure(path: str, data: bytes, splitter: bool) -> tuple[Parsed, Figures]:
    """The figures of one file."""
    start = time.process_time()
    parsed = parse(path, data)
    middle = time.process_time()
    chunks = chunk_file(parsed, DEFINITIONS)
    end = time.process_time()
    check(data, chunks)
    figures = Figures(1, len(data), len(chunks), len(parsed.symbols), middle - start, end - middle)
    figures.status[parsed.report.status] += 1
    if splitter:
        start = time.process_time()
        figures.split = len(recursive_chunker.chunk_ranges(parsed, RECURSIVE))
        figures.splitting = time.process_time() - start
    return parsed, figures


def main() -> None:
    """Prints a row for each directory, or for each language, and one for all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--by-language", action="store_true")
    parser.add_argument(
        "--no-splitter", action="store_true", help="do not run CocoIndex's splitter"
    )
    parser.add_argument(
        "--errors", action="store_true", help="name each file whose parse status is error"
    )
    options = parser.parse_args()
    rows: dict[str, Figures] = defaultdict(Figures)
    for directory in options.directories:
        for file in sorted(
            path for path in directory.rglob("*") if path.is_file() and ".git" not in path.parts
        ):
            path, data = file.relative_to(directory).as_posix(), file.read_bytes()
            if not detect.detect(path, data[: detect.HEAD_BYTES]) or content_skip_reason(
                data, LIMIT
            ):
                continue
            parsed, figures = measure(path, data, not options.no_splitter)
            rows[parsed.language if options.by_language else directory.name].add(figures)
            if options.errors and parsed.report.status == "error":
                print(f"{file}: {parsed.report.error_message}")
    names = f"{'':22}{'files':>7}{'MB':>8}{'chunks':>8}{'symbols':>8}{'MB/s':>9}"
    names += f"{'splitter':>9}{'ratio':>7}{'healthy':>9}"
    print(names)
    total = Figures()
    for name, figures in sorted(rows.items()):
        print(figures.row(name))
        total.add(figures)
    print(total.row("all"))
    if total.splitting:
        print(
            f"chunks: {total.chunks} at definitions, {total.split} by the splitter with overlap 300"
        )


if __name__ == "__main__":
    main()
