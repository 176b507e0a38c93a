"""Packs hits of a report into a token budget: much code of few files, the other files by name.

A sixth of the budget is for the names of files. The rest is for code: the place with the largest
gain per byte comes first. The gain is the estimated probability that the change belongs at the
place. It is a product: the probability of the file (by its rank and its index) times the
probability of the place within the file. A file shows its best place before its other places. Pure:
callers pass the texts of files.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cocosearchd.languages import definition_ranges
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import Hit, Place
from cocosearchd.search.answers.clipped_lines import GAP, clip_lines, join_clipped
from cocosearchd.search.answers.disk_files import FileContents

NAMES_SHARE = 1 / 6  # of a budget: some 45 files in 8,000 tokens
# Probability that the file at a rank (the first is rank 1) is the one to change: shares of 155 bug
# reports (benchmarks/README.md, "Bug reports"), smoothed. The last value applies to all further
# ranks.
FILE_SHARES = (0.56, 0.14, 0.07, 0.05, 0.04, 0.03, 0.02, 0.015, 0.012, 0.01, 0.006)
MIN_BYTES = 80  # length that a shorter place counts as: its heading is that long
MAX_MISFITS = 20  # places too long for the rest of the budget; then the budget counts as spent
JOINED_GAP = 2  # lines between two places: with at most so many, the places are joined
PLACE_TOKENS = 8  # the fence around a place, and a blank line
MAX_SIGNATURE = 120  # characters

Lines = tuple[int, int]  # first and last line, from 1


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file as it was indexed, with its definitions by `definition_ranges`."""

    contents: FileContents
    ranges: bytes


@dataclass(frozen=True, slots=True)
class _Piece:
    """Lines of a file that may be shown, with the probability that they are the ones to change."""

    lines: Lines
    bytes: int
    share: float
    relevance: float

    @property
    def gain(self) -> float:
        """The share for each byte of the piece."""
        return self.share / max(self.bytes, MIN_BYTES)


@dataclass(frozen=True, slots=True)
class _File:
    """The text of a hit's file. Without `source`, only the stored text of the hit is known."""

    hit: Hit
    source: SourceText | None
    line_width: int

    def text(self, first: int, last: int) -> str:
        """Return lines `first` to `last`, each cut to the width."""
        if self.source is None:
            return clip_lines(self.hit.content, self.line_width)
        lines = self.source.contents.lines(first, last)
        return join_clipped(lines, self.line_width)

    def signature(self, line: int) -> str:
        """Return the first line of the definition around `line`; "" if `line` is that line."""
        if self.source is None:
            return ""
        first = definition_ranges.innermost_start(self.source.ranges, line)
        if first is None or first >= line:
            return ""
        return self.text(first, first).strip()[:MAX_SIGNATURE]

    def cost(self, piece: _Piece) -> int:
        """Estimate the tokens of a piece with its fence and heading."""
        first, last = piece.lines
        heading = f"{first}-{last} {self.signature(first)}"
        return PLACE_TOKENS + estimate_tokens(f"{heading}\n{self.text(first, last)}\n")


def pack_hits(
    hits: Sequence[Hit], sources: Sequence[SourceText | None], budget: int, line_width: int
) -> tuple[Hit, ...]:
    """Return the first hits; as many as fit into a token budget have code.

    A hit without room for code has an empty `content`. Other places of its file are in
    `other_places`, with their `content`. `sources` are the texts of the hits' files, in the order
    of the hits; a hit without one shows its stored text. Lines are cut to `line_width` characters.
    The result is empty if the budget has no room for any place.
    """
    listed_hits, room = _fit_names(hits, budget)
    files = [
        _File(hit, source, line_width) for hit, source in zip(listed_hits, sources, strict=False)
    ]
    queues = [
        _list_pieces(hit, share, file)
        for hit, share, file in zip(listed_hits, estimate_shares(listed_hits), files, strict=True)
    ]
    chosen = _choose_pieces(files, queues, room)
    if not any(chosen):
        return ()
    return tuple(
        _show_pieces(hit, file, pieces)
        for hit, file, pieces in zip(listed_hits, files, chosen, strict=True)
    )


def name_hit(hit: Hit) -> str:
    """Return the compact form of a hit without code."""
    symbol = f"{hit.symbol_type} {hit.symbol_signature or hit.symbol_name}"
    similar = ", ".join((*hit.similar_paths[:3], *hit.counterparts, *map(str, hit.frame_lines)))
    return (
        f"{hit.path}:{hit.start_line}-{hit.end_line}  {symbol if hit.symbol_name else ''}  [50%]\n"
        f"{similar}\n\n"
    )


def _fit_names(hits: Sequence[Hit], budget: int) -> tuple[Sequence[Hit], int]:
    """Return the hits that are listed (at least one), and the rest of the budget."""
    room = int(budget * NAMES_SHARE)
    used = 0
    count = 0
    for hit in hits:
        cost = estimate_tokens(name_hit(hit))
        if count and used + cost > room:
            break
        used += cost
        count += 1
    return hits[:count], budget - used


def estimate_shares(hits: Sequence[Hit]) -> list[float]:
    """Estimate the probability that the file of each hit is the one to change, up to a factor.

    A question is about one index of several. The share of a file is the share of its rank among the
    hits of its own index, times the share of the index. The share of an index is `(its best
    relevance / the best relevance of all indexes) ** 2`, since the index with the best hit is
    nearly always the right one.
    """
    best = max((hit.relevance for hit in hits), default=0.0)
    best_by_index = dict[str, float]()
    for hit in hits:
        best_by_index[hit.index] = max(hit.relevance, best_by_index.get(hit.index, 0.0))
    ranks = Counter[str]()
    shares = list[float]()
    for hit in hits:
        index_share = (best_by_index[hit.index] / best) ** 2 if best else 1.0
        shares.append(index_share * FILE_SHARES[min(ranks[hit.index], len(FILE_SHARES) - 1)])
        ranks[hit.index] += 1
    return shares


def _list_pieces(hit: Hit, share: float, file: _File) -> Sequence[_Piece]:
    """Return the places of a hit that may be shown, best first. `share` is the share of its file.

    Scores of places are logarithms of their shares. The first place may have a lower score than
    other places, if the question names it by a line.
    """
    if file.source is None or not hit.compared_places:
        lines = (hit.start_line, hit.end_line)
        return [_Piece(lines, hit.end_byte - hit.start_byte, share, hit.relevance)]
    scores = np.array([entry.score for entry in hit.compared_places])
    shares = np.exp(scores - scores.max())
    shares[0] = 1.0
    shares *= share / shares.sum()
    return [
        _Piece(
            _lines_of(file.source.contents, entry.start_byte, entry.end_byte),
            entry.end_byte - entry.start_byte,
            place_share,
            entry.relevance,
        )
        for entry, place_share in zip(hit.compared_places, shares.tolist(), strict=True)
    ]


def _lines_of(contents: FileContents, start_byte: int, end_byte: int) -> Lines:
    last_byte = max(start_byte, end_byte - 1)
    first, last = np.searchsorted(contents.starts, (start_byte, last_byte), side="right").tolist()
    return first, last


def _choose_pieces(
    files: Sequence[_File], queues: Sequence[Sequence[_Piece]], room: int
) -> list[list[_Piece]]:
    """Choose the pieces of each file that fit into `room` tokens, in descending order of gain.

    The pieces of one file keep their order. A piece that does not fit is left out.
    """
    chosen: list[list[_Piece]] = [[] for _ in files]
    heap = [(-queue[0].gain, number, 0) for number, queue in enumerate(queues)]
    heapq.heapify(heap)
    misfits = 0
    while heap and misfits < MAX_MISFITS:
        _, number, position = heapq.heappop(heap)
        piece = queues[number][position]
        cost = files[number].cost(piece)
        if cost <= room:
            room -= cost
            chosen[number].append(piece)
        else:
            misfits += 1
        if position + 1 < len(queues[number]):
            following = queues[number][position + 1]
            heapq.heappush(heap, (-following.gain, number, position + 1))
    return chosen


def _show_pieces(hit: Hit, file: _File, pieces: Sequence[_Piece]) -> Hit:
    """Return a hit with the lines of its pieces, in place of its context and other places."""
    if file.source is None:
        content = file.text(hit.start_line, hit.end_line) if pieces else ""
        return replace(hit, content=content, context_before="", context_after="", other_places=())
    blocks = _join_pieces(pieces)
    hit_block = next(
        (block for block in blocks if _covers(block, (hit.start_line, hit.end_line))), None
    )
    other_places = tuple(
        _make_place(hit, file, block) for block in blocks if block is not hit_block
    )
    if hit_block is None:
        return replace(
            hit, content="", context_before="", context_after="", other_places=other_places
        )
    return replace(_show_block(hit, file, hit_block.lines), other_places=other_places)


def _show_block(hit: Hit, file: _File, lines: Lines) -> Hit:
    """Return a hit with the lines around it, below the signature of their definition."""
    first, last = lines
    signature = file.signature(first)
    above = file.text(first, hit.start_line - 1) if first < hit.start_line else ""
    return replace(
        hit,
        content=clip_lines(hit.content, file.line_width),
        context_before="\n".join(filter(None, (*((signature, GAP) if signature else ()), above))),
        context_after=file.text(hit.end_line + 1, last) if last > hit.end_line else "",
    )


def _covers(piece: _Piece, lines: Lines) -> bool:
    return piece.lines[0] <= lines[0] and lines[1] <= piece.lines[1]


def _join_pieces(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Join pieces that are next to each other; the block with the best piece comes first."""
    blocks = list[_Piece]()
    for piece in sorted(pieces, key=lambda piece: piece.lines):
        if blocks and piece.lines[0] <= blocks[-1].lines[1] + 1 + JOINED_GAP:
            blocks[-1] = _join(blocks[-1], piece)
        else:
            blocks.append(piece)
    return sorted(blocks, key=lambda block: -block.share)


def _join(upper: _Piece, lower: _Piece) -> _Piece:
    return _Piece(
        (upper.lines[0], max(upper.lines[1], lower.lines[1])),
        upper.bytes + lower.bytes,
        max(upper.share, lower.share),
        max(upper.relevance, lower.relevance),
    )


def _make_place(hit: Hit, file: _File, block: _Piece) -> Place:
    """Make the place of a block.

    A place of the hit within the block supplies the symbol and the line to open.
    """
    first, last = block.lines
    content = file.text(first, last)
    ranked_place = next(
        (entry for entry in hit.other_places if _covers(block, (entry.line, entry.line))), None
    )
    if ranked_place is not None:
        return replace(ranked_place, start_line=first, end_line=last, content=content)
    return Place(
        start_line=first,
        end_line=last,
        start_byte=0,
        end_byte=0,
        symbol_type=None,
        symbol_name=None,
        symbol_signature=file.signature(first) or None,
        relevance=block.relevance,
        line=first,
        text=content.partition("\n")[0].strip(),
        content=content,
    )
