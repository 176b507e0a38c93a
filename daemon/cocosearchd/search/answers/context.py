"""Widens a hit for reading: to its enclosing definition, or by given numbers of lines. Synchronous:
for a thread.

All of a shown hit comes from a file whose content hash is the indexed one. A hit whose file has
changed since keeps its stored text, is marked stale, and gets no context.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from cocosearchd.languages import scopes
from cocosearchd.model import Hit
from cocosearchd.search.answers.disk_files import FileContents, VerifiedFiles
from cocosearchd.search.answers.token_estimate import estimate_tokens
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import ViewOptions
from cocosearchd.store.chunks.file_states import FileState

ELLIPSIS = "..."
GAP = "…"  # a line that stands for those left out between the signature and the match
MAX_SIGNATURE_LINES = 4
MIN_CUT_LINES = 3  # of a hit that does not fit: fewer say nothing
MAX_CACHED_CONTEXTS = 256  # derived contexts per file
MAX_EXPANDED = 512  # answers: a context of ten hits is some ten kilobytes


@dataclass(frozen=True, slots=True)
class ExpandedHits:
    """Hits with their context, and the files that are no longer as they were indexed."""

    hits: tuple[Hit, ...]
    changed_paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LineSpan:
    """What to show around a match: inclusive line ranges, empty when first > last. `head` is the
    signature.
    """

    head: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]


# identity of hits, how they are shown, and how many of them
_Key = tuple[int, ViewOptions, int | None]


class _ExpansionCache:
    """Expanded hits by the identity of what they were made of, which is held too, so that it stays
    one. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: OrderedDict[_Key, tuple[tuple[Hit, ...], ExpandedHits]] = OrderedDict()

    def get(self, key: _Key) -> tuple[tuple[Hit, ...], ExpandedHits] | None:
        return self._entries.get(key)

    def put(self, key: _Key, value: tuple[tuple[Hit, ...], ExpandedHits]) -> None:
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            if len(self._entries) > MAX_EXPANDED:
                self._entries.popitem(last=False)


class Context:
    """Expands hits; remembers what it has read."""

    def __init__(self, max_lines: int, line_width: int, disk: VerifiedFiles | None = None) -> None:
        self._max_lines = max_lines
        self._line_width = line_width
        self.disk = disk or VerifiedFiles()
        self._kept = _ExpansionCache()

    def forget(self) -> None:
        """Let go of what was expanded; the next answers are expanded anew."""
        self._kept = _ExpansionCache()

    def expand(
        self,
        root: bytes,
        hits: tuple[Hit, ...],
        files: Sequence[FileState],
        view: ViewOptions,
        overlay: Overlay | None = None,
        count: int | None = None,
    ) -> ExpandedHits:
        """The first `count` hits of one index in their order, None: all; of these what the budget
        of `view` leaves.

        `files` are the files of the hits as they were indexed, or as `overlay` has them. The very
        same hits, kept by a cache, cost one `stat` a file when they are expanded again in the same
        way.
        """
        unsaved = {path: file.text for path, file in overlay.files.items()} if overlay else {}
        key = (id(hits), view, count)
        shown = hits[:count]
        known = self._kept.get(key)
        if known is not None and known[0] is hits:
            saved = {hit.path for hit in shown} - unsaved.keys()
            if all(
                self.disk.unchanged(root, file.path, file.content_hash)
                for file in files
                if file.path in saved
            ):
                return known[1]
        found = self._expanded(root, shown, {file.path: file for file in files}, view, unsaved)
        if not found.changed_paths:
            self._kept.put(key, (hits, found))
        return found

    def expand_stored(
        self, hits: tuple[Hit, ...], view: ViewOptions, overlay: Overlay | None, count: int | None
    ) -> ExpandedHits:
        """As `expand` where no file can be read: hits as they are stored, marked stale."""
        unsaved = {path: file.text for path, file in overlay.files.items()} if overlay else {}
        return self._expanded(b"", hits[:count], {}, view, unsaved)

    def _expanded(
        self,
        root: bytes,
        hits: tuple[Hit, ...],
        states: Mapping[str, FileState],
        view: ViewOptions,
        unsaved: Mapping[str, FileContents],
    ) -> ExpandedHits:
        shown = []
        texts = dict[str, FileContents | None](unsaved)
        for hit in hits:
            state = states.get(hit.path)
            if hit.path not in texts:
                texts[hit.path] = (
                    None
                    if state is None
                    else self.disk.verified(root, hit.path, state.content_hash)
                )
            text = texts[hit.path]
            before, after = (
                ("", "") if text is None or state is None else self._around(hit, text, state, view)
            )
            content = clip_lines(hit.content, self._line_width)
            shown.append(
                _with_context(
                    hit, content, before, after, stale=text is None, overlay=hit.path in unsaved
                )
            )
        fitting = fit_budget(tuple(shown), view.budget_chars, view.budget_tokens)
        return ExpandedHits(fitting, tuple(path for path, text in texts.items() if text is None))

    def _around(
        self, hit: Hit, text: FileContents, state: FileState, view: ViewOptions
    ) -> tuple[str, str]:
        # All that the lines depend on: a text outlives the limits, and files that have it may know
        # other definitions.
        shown = (view.lines_before, view.lines_after, view.smart, self._max_lines, self._line_width)
        key = (hit.path, hit.start_byte, hit.end_byte, *shown, hash(state.scopes))
        known = text.memory.get(key)
        if known is None:
            if len(text.memory) >= MAX_CACHED_CONTEXTS:
                text.memory.clear()
            known = text.memory[key] = self._cut(self._span(hit, text, state.scopes, view), text)
        return known

    def _span(
        self, hit: Hit, text: FileContents, known: bytes | None, view: ViewOptions
    ) -> LineSpan:
        if view.lines_before is not None or view.lines_after is not None:
            first = hit.start_line - (view.lines_before or 0)
            last = min(hit.end_line + (view.lines_after or 0), text.line_count)
            return choose_lines(
                hit.start_line, hit.end_line, max(1, first), last, self._max_lines, 0
            )
        around = (
            scopes.enclosing(known or b"", text.data, hit.start_byte, hit.end_byte)
            if view.smart
            else None
        )
        if around is None:
            return choose_lines(
                hit.start_line, hit.end_line, hit.start_line, hit.end_line, self._max_lines, 0
            )
        return choose_lines(
            hit.start_line,
            hit.end_line,
            *around,
            self._max_lines,
            count_signature_lines(text, *around),
        )

    def _cut(self, parts: LineSpan, text: FileContents) -> tuple[str, str]:
        head = text.lines(*parts.head)
        before = text.lines(*parts.before)
        gap = [GAP] if head and parts.head[1] + 1 < parts.before[0] else []
        width = self._line_width
        return (
            "\n".join(clip_line(line, width) for line in (*head, *gap, *before)),
            "\n".join(clip_line(line, width) for line in text.lines(*parts.after)),
        )


def choose_lines(
    start: int, end: int, first: int, last: int, max_lines: int, head_lines: int
) -> LineSpan:
    """Which lines around the match `start`..`end` to show, out of `first`..`last`, at most
    `max_lines` with the match.

    The match is always whole. Then come `head_lines` lines from `first` on (the signature), then
    what is nearest to the match: half of the rest on each side, and what one side does not need
    goes to the other.
    """
    first = min(first, start)
    last = max(last, end)
    room = max(0, max_lines - (end - start + 1))
    above = start - first
    below = last - end
    if above + below <= room:
        return LineSpan((1, 0), (first, start - 1), (end + 1, last))
    head = min(head_lines, above, room)
    if head < above:
        head = max(0, min(head, room - 1))  # a line says that some are left out
    gap = 1 if 0 < head < above else 0
    room -= head + gap
    up = min(above - head, max(room // 2, room - below))
    down = min(below, room - up)
    if head + up == above:  # nothing is left out above after all
        down = min(below, down + gap)
    return LineSpan((first, first + head - 1), (start - up, start - 1), (end + 1, end + down))


def count_signature_lines(text: FileContents, first: int, last: int) -> int:
    """How many lines from `first` on say what is defined: decorators and attributes, and the line
    after them.
    """
    lines = text.lines(first, min(last, first + MAX_SIGNATURE_LINES - 1))
    decorators = 0
    while decorators < len(lines) - 1 and lines[decorators].lstrip().startswith(("@", "#[", "[")):
        decorators += 1
    return decorators + 1


def clip_lines(text: str, width: int) -> str:
    """Every line of a text cut to `width` characters."""
    if len(text) <= width:
        return text
    return "\n".join(clip_line(line, width) for line in text.split("\n"))


def clip_line(line: str, width: int) -> str:
    """At most `width` characters (not bytes), the last three of them dots where something is left
    out.
    """
    return line if len(line) <= width else line[: max(0, width - len(ELLIPSIS))] + ELLIPSIS


def fit_budget(
    hits: tuple[Hit, ...], budget_chars: int | None, budget_tokens: int | None = None
) -> tuple[Hit, ...]:
    """The most useful prefix of the hits whose content and context have at most so many characters
    and tokens.

    A hit that does not fit with its context is shown without; the last one is cut at a line if
    enough of it fits, and the first one is never left out. Tokens are those of `estimate_tokens`,
    with a line for each hit that says where.
    """
    if budget_chars is not None:
        hits = _fit(hits, budget_chars, len, lambda _: 0)
    if budget_tokens is not None:
        hits = _fit(
            hits, budget_tokens, estimate_tokens, lambda hit: estimate_tokens(hit_heading(hit))
        )
    return hits


def hit_heading(hit: Hit) -> str:
    """The line above a hit in the compact form."""
    return f"{hit.path}:{hit.start_line}-{hit.end_line} {hit.symbol_name or ''}"


def _fit(
    hits: tuple[Hit, ...], left: int, measure: Callable[[str], int], overhead: Callable[[Hit], int]
) -> tuple[Hit, ...]:
    kept = list[Hit]()
    for hit in hits:
        left -= overhead(hit)
        bare = measure(hit.content)
        whole = bare + measure(hit.context_before) + measure(hit.context_after)
        if whole <= left:
            kept.append(hit)
            left -= whole
        elif bare <= left:
            kept.append(
                _with_context(hit, hit.content, "", "", stale=hit.stale, overlay=hit.overlay)
            )
            left -= bare
        else:
            cut = _cut_text(hit.content, left, measure, least=0 if not kept else MIN_CUT_LINES)
            if cut is not None:
                kept.append(_with_context(hit, cut, "", "", stale=hit.stale, overlay=hit.overlay))
            break
    return tuple(kept)


def _cut_text(text: str, left: int, measure: Callable[[str], int], least: int) -> str | None:
    """The first lines of a text that fit, and dots; with `least` 0 part of a line, if need be.
    None: too few fit.
    """
    lines = text.split("\n")
    used = measure(ELLIPSIS)
    count = 0
    for line in lines:
        used += measure(f"{line}\n")
        if used > left:
            break
        count += 1
    if count >= max(1, least):
        return "\n".join((*lines[:count], ELLIPSIS))
    if least:
        return None
    part = lines[0]
    while part and measure(part + ELLIPSIS) > left:
        part = part[: min(len(part) - 1, len(part) * 7 // 8)]
    return part + ELLIPSIS


def _with_context(
    hit: Hit, content: str, before: str, after: str, *, stale: bool, overlay: bool
) -> Hit:
    """Spelled out: `dataclasses.replace` costs ten times as much, and this runs for every shown
    hit.
    """
    return Hit(
        hit.index,
        hit.path,
        hit.start_byte,
        hit.end_byte,
        hit.start_line,
        hit.end_line,
        hit.language,
        hit.score,
        hit.match_type,
        hit.block_type,
        hit.hierarchy,
        hit.symbol_type,
        hit.symbol_name,
        hit.symbol_signature,
        content,
        before,
        after,
        hit.scores,
        stale,
        overlay,
    )
