"""Adds context to hits: the enclosing definition, or a number of lines before and after.

Synchronous: call it in a thread. Context comes only from a file that still has the indexed content
hash. If the file has changed, its hit keeps the stored text, is marked stale, and gets no context.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from threading import Lock

from cocosearchd.languages import definition_ranges
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import Hit
from cocosearchd.search.answers.bundle import SourceText, pack_hits
from cocosearchd.search.answers.clipped_lines import ELLIPSIS, GAP, clip_lines, join_clipped
from cocosearchd.search.answers.disk_files import FileContents, VerifiedFiles
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import ViewOptions
from cocosearchd.store.reads.file_states import FileState

MAX_SIGNATURE_LINES = 4
MIN_CUT_LINES = 3  # lines shown of a hit that does not fit: fewer are useless
MAX_CACHED_CONTEXTS = 256  # derived contexts per file
MAX_EXPANDED = 512  # cached expansions: the context of ten hits is some ten kilobytes


@dataclass(frozen=True, slots=True)
class ExpandedHits:
    """Hits with their context, and the files that have changed since they were indexed."""

    hits: tuple[Hit, ...]
    changed_paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourcedHits:
    """Hits without context, marked like expanded hits, each with the text of its file.

    A source is None if the file cannot be read as it was indexed.
    """

    hits: tuple[Hit, ...]
    sources: tuple[SourceText | None, ...]
    changed_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineSpan:
    """The lines to show around a match: inclusive ranges, empty when first > last.

    `head` is the signature.
    """

    head: tuple[int, int]
    above: tuple[int, int]
    below: tuple[int, int]


# (identity of the hits, view options, number of hits to show)
_Key = tuple[int, ViewOptions, int | None]


class _ExpansionCache:
    """A cache of expanded hits, keyed by the identity (`id`) of the tuple of hits. Thread-safe.

    An entry holds a reference to the hits, because Python may reuse the `id` of a freed object.
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


class HitExpander:
    """Expands hits, with caches of files and of expansions."""

    def __init__(self, max_lines: int, line_width: int, disk: VerifiedFiles | None = None) -> None:
        self._max_lines = max_lines
        self._line_width = line_width
        self.disk = disk or VerifiedFiles()
        self._expansions = _ExpansionCache()

    def forget(self) -> None:
        """Drop the cached expansions."""
        self._expansions = _ExpansionCache()

    def expand(
        self,
        root: bytes,
        hits: tuple[Hit, ...],
        files: Sequence[FileState],
        view: ViewOptions,
        overlay: Overlay | None = None,
        count: int | None = None,
    ) -> ExpandedHits:
        """Expand the first `count` hits of one index in their order, within the budget of `view`.

        With `count` None, all hits are expanded. `files` are the states of the hits' files as they
        were indexed, or as `overlay` has them. Expanding the same tuple of hits again in the same
        way costs one `stat` per file.
        """
        unsaved = overlay.texts if overlay else {}
        files_by_path = {file.path: file for file in files}
        key = (id(hits), view, count)
        shown_hits = hits[:count]
        cached = self._expansions.get(key)
        if cached is not None and cached[0] is hits:
            saved_paths = {hit.path for hit in shown_hits} - unsaved.keys()
            if self._all_unchanged(root, saved_paths, files_by_path):
                return cached[1]
        texts = self._read_texts(root, shown_hits, files_by_path, unsaved)
        expanded = self._expand(texts, shown_hits, files_by_path, view, unsaved)
        if not expanded.changed_paths:
            self._expansions.put(key, (hits, expanded))
        return expanded

    def read_sources(
        self,
        root: bytes,
        hits: tuple[Hit, ...],
        files: Sequence[FileState],
        overlay: Overlay | None,
    ) -> SourcedHits:
        """Read the files of hits that are packed later.

        Not cached: a cache would hold all these files.
        """
        unsaved = overlay.texts if overlay else {}
        states = {file.path: file for file in files}
        return add_sources(hits, states, self._read_texts(root, hits, states, unsaved), unsaved)

    def unsaved_sources(
        self, hits: tuple[Hit, ...], files: Sequence[FileState], overlay: Overlay | None
    ) -> SourcedHits:
        """Return hits while the disk cannot be read: stored text, marked stale.

        Hits of unsaved files have their unsaved text and are not stale.
        """
        unsaved = overlay.texts if overlay else {}
        states = {file.path: file for file in files}
        return add_sources(hits, states, {hit.path: unsaved.get(hit.path) for hit in hits}, unsaved)

    def pack(self, sourced: SourcedHits, view: ViewOptions) -> tuple[Hit, ...]:
        """Pack the hits of a report, from one or several indexes, into the token budget of `view`.

        The result is empty if no place fits.
        """
        assert view.budget_tokens is not None, "only a budget of tokens is packed"
        return pack_hits(sourced.hits, sourced.sources, view.budget_tokens, self._line_width)

    def _all_unchanged(
        self, root: bytes, paths: Iterable[str], files: Mapping[str, FileState]
    ) -> bool:
        return all(
            self.disk.unchanged(root, path, files[path].content_hash)
            for path in paths
            if path in files
        )

    def expand_stored(
        self, hits: tuple[Hit, ...], view: ViewOptions, overlay: Overlay | None, count: int | None
    ) -> ExpandedHits:
        """Expand hits while the disk cannot be read: stored text, marked stale."""
        unsaved = overlay.texts if overlay else {}
        texts = {hit.path: unsaved.get(hit.path) for hit in hits[:count]}
        return self._expand(texts, hits[:count], {}, view, unsaved)

    def expand_followed(
        self,
        hits: tuple[Hit, ...],
        files: Sequence[FileState],
        view: ViewOptions,
        contents: Mapping[str, FileContents],
        count: int | None,
    ) -> ExpandedHits:
        """Expand hits of a followed index from stored contents. No hit is marked stale.

        A hit of a file that is not in `contents` gets no context.
        """
        states = {file.path: file for file in files}
        texts = {hit.path: contents.get(hit.path) for hit in hits[:count]}
        expanded = self._expand(texts, hits[:count], states, view, {})
        unmarked = tuple(replace(hit, stale=False) if hit.stale else hit for hit in expanded.hits)
        return ExpandedHits(unmarked, ())

    def _expand(
        self,
        texts: Mapping[str, FileContents | None],
        hits: tuple[Hit, ...],
        states: Mapping[str, FileState],
        view: ViewOptions,
        unsaved: Mapping[str, FileContents],
    ) -> ExpandedHits:
        """Expand hits with the texts of their files. A text is None if the file has changed."""
        changed_paths = tuple(path for path, text in texts.items() if text is None)
        if is_bundled(hits, view):
            bundle = self.pack(add_sources(hits, states, texts, unsaved), view)
            if bundle:
                return ExpandedHits(bundle, changed_paths)
        expanded = []
        for hit in hits:
            state = states.get(hit.path)
            text = texts[hit.path]
            lines_before, lines_after = (
                ("", "")
                if text is None or state is None
                else self._cached_context(hit, text, state, view)
            )
            content = clip_lines(hit.content, self._line_width)
            expanded.append(
                _with_context(
                    hit,
                    content,
                    lines_before,
                    lines_after,
                    stale=text is None,
                    overlay=hit.path in unsaved,
                )
            )
        fitting = fit_budget(tuple(expanded), view.budget_chars, view.budget_tokens)
        return ExpandedHits(fitting, changed_paths)

    def _read_texts(
        self,
        root: bytes,
        hits: Sequence[Hit],
        states: Mapping[str, FileState],
        unsaved: Mapping[str, FileContents],
    ) -> dict[str, FileContents | None]:
        """Read the files of hits; None for a file that is no longer as it was indexed."""
        texts = dict[str, FileContents | None]()
        for path in dict.fromkeys(hit.path for hit in hits):
            state = states.get(path)
            texts[path] = unsaved.get(path) or (
                None if state is None else self.disk.verified(root, path, state.content_hash)
            )
        return texts

    def _cached_context(
        self, hit: Hit, text: FileContents, state: FileState, view: ViewOptions
    ) -> tuple[str, str]:
        # The key holds everything that the lines depend on: the cached text may outlive the current
        # limits, and several files with the same text may have different definitions.
        settings = (
            view.lines_before,
            view.lines_after,
            view.smart_context,
            self._max_lines,
            self._line_width,
        )
        key = (hit.path, hit.start_byte, hit.end_byte, *settings, hash(state.scopes))
        context = text.context_cache.get(key)
        if context is None:
            if len(text.context_cache) >= MAX_CACHED_CONTEXTS:
                text.context_cache.clear()
            context = text.context_cache[key] = self._cut(
                self._span(hit, text, state.scopes, view), text
            )
        return context

    def _span(
        self, hit: Hit, text: FileContents, packed_ranges: bytes | None, view: ViewOptions
    ) -> LineSpan:
        if view.lines_before is not None or view.lines_after is not None:
            first = hit.start_line - (view.lines_before or 0)
            last = min(hit.end_line + (view.lines_after or 0), text.line_count)
            return choose_lines(
                hit.start_line, hit.end_line, max(1, first), last, self._max_lines, 0
            )
        definition = (
            _find_definition(hit, text, packed_ranges or b"") if view.smart_context else None
        )
        first, last = definition or (hit.start_line, hit.end_line)
        line_count = max(last, hit.end_line) - min(first, hit.start_line) + 1
        # Only lines that do not all fit are preceded by the signature
        head_lines = count_signature_lines(text, first, last) if line_count > self._max_lines else 0
        return choose_lines(hit.start_line, hit.end_line, first, last, self._max_lines, head_lines)

    def _cut(self, line_span: LineSpan, text: FileContents) -> tuple[str, str]:
        head = text.lines(*line_span.head)
        lines_before = text.lines(*line_span.above)
        gap = [GAP] if head and line_span.head[1] + 1 < line_span.above[0] else []
        width = self._line_width
        return (
            join_clipped([*head, *gap, *lines_before], width),
            join_clipped(text.lines(*line_span.below), width),
        )


def _find_definition(hit: Hit, text: FileContents, packed_ranges: bytes) -> tuple[int, int] | None:
    """Return the lines of the definition around a hit, else of the largest that starts in the hit."""
    around = definition_ranges.enclosing(packed_ranges, text.data, hit.start_byte, hit.end_byte)
    return around or definition_ranges.largest_starting(packed_ranges, hit.start_byte, hit.end_byte)


def add_sources(
    hits: tuple[Hit, ...],
    states: Mapping[str, FileState],
    texts: Mapping[str, FileContents | None],
    unsaved: Mapping[str, FileContents],
) -> SourcedHits:
    """Combine hits with the texts of their files, and mark stale and unsaved hits."""
    sources = {
        path: SourceText(text, states[path].scopes or b"")
        for path, text in texts.items()
        if text is not None and path in states
    }
    return SourcedHits(
        tuple(
            replace(hit, stale=texts[hit.path] is None, overlay=hit.path in unsaved) for hit in hits
        ),
        tuple(sources.get(hit.path) for hit in hits),
        tuple(path for path, text in texts.items() if text is None),
    )


def is_bundled(hits: Iterable[Hit], view: ViewOptions) -> bool:
    """Return True if the hits belong to a report, with a token budget and default context."""
    return (
        view.budget_tokens is not None
        and view.budget_chars is None
        and view.lines_before is None
        and view.lines_after is None
        and view.smart_context
        and any(hit.compared_places for hit in hits)
    )


def choose_lines(
    start: int, end: int, first: int, last: int, max_lines: int, head_lines: int
) -> LineSpan:
    """Choose the lines to show around the match `start`..`end`, out of `first`..`last`.

    At most `max_lines` lines are chosen, including the match. The match is always complete. The
    signature (`head_lines` lines from `first` on) has the next priority. The rest goes to the lines
    nearest to the match, half on each side. Lines that one side does not need go to the other side.
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
        head = max(0, min(head, room - 1))  # one line for `GAP`
    gap = 1 if 0 < head < above else 0
    room -= head + gap
    lines_above = min(above - head, max(room // 2, room - below))
    lines_below = min(below, room - lines_above)
    if head + lines_above == above:  # no lines are left out above, so there is no `GAP`
        lines_below = min(below, lines_below + gap)
    return LineSpan(
        (first, first + head - 1), (start - lines_above, start - 1), (end + 1, end + lines_below)
    )


def count_signature_lines(text: FileContents, first: int, last: int) -> int:
    """Count the lines of the signature that begins at line `first`.

    The signature is the decorators and attributes, and the line after them.
    """
    lines = text.lines(first, min(last, first + MAX_SIGNATURE_LINES - 1))
    decorators = 0
    while decorators < len(lines) - 1 and lines[decorators].lstrip().startswith(("@", "#[", "[")):
        decorators += 1
    return decorators + 1


def fit_budget(
    hits: tuple[Hit, ...], budget_chars: int | None, budget_tokens: int | None = None
) -> tuple[Hit, ...]:
    """Return the longest prefix of the hits that fits into budgets of characters and tokens.

    A hit that does not fit with its context, or with the code of its other places, is shown without
    them. The last hit is cut at the end of a line if enough of it fits. The first hit is never left
    out. `estimate_tokens` counts the tokens; each hit also counts its heading.
    """
    if budget_chars is not None:
        hits = _fit(hits, budget_chars, len, lambda _: 0)
    if budget_tokens is not None:
        hits = _fit(
            hits, budget_tokens, estimate_tokens, lambda hit: estimate_tokens(hit_heading(hit))
        )
    return hits


def hit_heading(hit: Hit) -> str:
    """Return the text around the code of a hit in the compact form, including its other places."""
    lines = f"{hit.start_line}-{hit.end_line}"
    symbol = f"{hit.symbol_type} {hit.symbol_name}" if hit.symbol_name else ""
    also = (
        f"{entry.start_line}-{entry.end_line} {entry.symbol_name or ''}"
        for entry in hit.other_places
    )
    frames = ", ".join(map(str, hit.frame_lines))
    alike = chain(hit.similar_lines, *(entry.similar_lines for entry in hit.other_places))
    below = ", ".join((*also, *hit.similar_paths[:3], *hit.counterparts, *map(str, alike), frames))
    code = "".join(f"\n```\n{entry.content}\n```" for entry in hit.other_places if entry.content)
    return (
        f"{hit.path}:{lines} (hit: {lines})  {symbol}  [50%]\n"
        f"```{hit.language}\nx\n```\n{below}{code}\n\n"
    )


def _fit(
    hits: tuple[Hit, ...],
    budget: int,
    measure: Callable[[str], int],
    overhead: Callable[[Hit], int],
) -> tuple[Hit, ...]:
    fitting = list[Hit]()
    for hit in hits:
        if overhead(hit) > budget:
            hit = replace(
                hit, other_places=tuple(replace(entry, content="") for entry in hit.other_places)
            )
        budget -= overhead(hit)
        content_size = measure(hit.content)
        full_size = content_size + measure(hit.context_before) + measure(hit.context_after)
        if full_size <= budget:
            fitting.append(hit)
            budget -= full_size
        elif content_size <= budget:
            fitting.append(
                _with_context(hit, hit.content, "", "", stale=hit.stale, overlay=hit.overlay)
            )
            budget -= content_size
        else:
            cut = _cut_text(hit.content, budget, measure, least=0 if not fitting else MIN_CUT_LINES)
            if cut is not None:
                fitting.append(
                    _with_context(hit, cut, "", "", stale=hit.stale, overlay=hit.overlay)
                )
            break
    return tuple(fitting)


def _cut_text(text: str, budget: int, measure: Callable[[str], int], least: int) -> str | None:
    """Return the first lines of a text that fit, with dots; None if fewer than `least` lines fit.

    With `least` 0, the result is a part of the first line if no line fits.
    """
    lines = text.split("\n")
    used = measure(ELLIPSIS)
    count = 0
    for line in lines:
        used += measure(f"{line}\n")
        if used > budget:
            break
        count += 1
    if count >= max(1, least):
        return "\n".join((*lines[:count], ELLIPSIS))
    return None if least else cut_line(lines[0], budget, measure)


def cut_line(line: str, budget: int, measure: Callable[[str], int]) -> str:
    """Return the part of a line that fits into a budget, with dots."""
    while line and measure(line + ELLIPSIS) > budget:
        line = line[: min(len(line) - 1, len(line) * 7 // 8)]
    return line + ELLIPSIS


def _with_context(
    hit: Hit, content: str, context_before: str, context_after: str, *, stale: bool, overlay: bool
) -> Hit:
    """Return the same hit with another content, context and marks; the hit itself if none differs.

    Every field is written out: `dataclasses.replace` costs ten times as much, and this runs for
    every shown hit.
    """
    code = (content, context_before, context_after, stale, overlay)
    if code == (hit.content, hit.context_before, hit.context_after, hit.stale, hit.overlay):
        return hit
    return Hit(
        index=hit.index,
        path=hit.path,
        start_byte=hit.start_byte,
        end_byte=hit.end_byte,
        start_line=hit.start_line,
        end_line=hit.end_line,
        language=hit.language,
        score=hit.score,
        match_type=hit.match_type,
        block_type=hit.block_type,
        hierarchy=hit.hierarchy,
        symbol_type=hit.symbol_type,
        symbol_name=hit.symbol_name,
        symbol_signature=hit.symbol_signature,
        content=content,
        context_before=context_before,
        context_after=context_after,
        signals=hit.signals,
        stale=stale,
        overlay=overlay,
        relevance=hit.relevance,
        line=hit.line,
        other_places=hit.other_places,
        similar_paths=hit.similar_paths,
        similar_lines=hit.similar_lines,
        symbol_parent=hit.symbol_parent,
        counterparts=hit.counterparts,
        frame_lines=hit.frame_lines,
        compared_places=hit.compared_places,
    )
