"""Exclusion reasons: why a file of a root is not searched, and the remedy for users.

`status`, `why_not`, `get_file`, the log and the front ends make their sentences from two tables.
`EXCLUSIONS` is for files in scope that are *not searched*, `SCOPE_EXCLUSIONS` for rules of the scope
that *leave out* files. A part of the daemon that excludes a file for a new reason adds a row here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from cocosearchd.model import SkipReason

# Stored with the file (`SkipReason`), or known for as long as the daemon runs.
ExclusionCode = (
    SkipReason | Literal["quarantined", "froze", "ended", "failed", "embedder_away", "store_away"]
)
# Kinds of rules that leave a file out of the scope of a root.
ScopeCode = Literal[
    "gitignore",
    "git_excludes",
    "cocosearchignore",
    "exclude",
    "built_in",
    "length",
    "secret_name",
    "include",
    "type",
]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """One reason. `cause` is a clause about the file ("it is no text"), `remedy` an imperative."""

    cause: str
    remedy: str

    @property
    def sentence(self) -> str:
        """Cause and remedy."""
        return f"{self.cause}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class ScopeExclusion:
    """A rule of the scope, and the remedy that lets its files be indexed.

    `{detail}` in a text stands for the deciding line, or for the content of the rule.
    """

    cause: str  # follows a number of files: "12 by .gitignore"
    remedy: str  # an imperative clause: "change that file to index them"
    rule: str = "{detail}"  # follows "it is left out by": "its length: {detail}"
    clause: str = ""  # replaces "it is left out by ...": "it matches none of indexing.include"

    def name_rule(self, detail: str) -> str:
        """Return the name of the rule, or the clause if there is one."""
        return self.clause or self.rule.format(detail=detail)

    def explain(self, detail: str) -> str:
        """Return a clause about the file: why it is left out."""
        return self.clause or f"it is left out by {self.name_rule(detail)}"


EXCLUSIONS: dict[ExclusionCode, Exclusion] = {
    "quarantined": Exclusion(
        "it ended or stalled the process that parses it",
        "change its content, and it is tried again, or exclude it (indexing.extend_exclude)",
    ),
    "froze": Exclusion(
        "the daemon stopped answering while it worked on it",
        "change its content, and it is tried again, or exclude it (indexing.extend_exclude)",
    ),
    "ended": Exclusion(
        "the daemon ended several times while it worked on it",
        "it is tried again within a day, and when its content changes; "
        "if memory ran out, give the daemon more",
    ),
    "unreadable": Exclusion("it may not be read", "let the daemon's user read it, or exclude it"),
    "too_large": Exclusion(
        "it is larger than indexing.max_file_bytes",
        "raise that setting, or read the file from the disk",
    ),
    "minified": Exclusion(
        "its lines are too long for code that people write", "index the source that it is made from"
    ),
    "secret": Exclusion(
        "it holds a secret (indexing.index_secrets)",
        "remove the secret, or set indexing.index_secrets",
    ),
    "binary": Exclusion("it is no text", "read it from the disk, or save it as UTF-8"),
    "unsupported": Exclusion(
        "its type is not one that is indexed", "name its type in indexing.extend_include"
    ),
    "failed": Exclusion(
        "it could not be indexed", "it is tried again by itself; cocosearchctl logs says more"
    ),
    "embedder_away": Exclusion(
        "the embedder is not available", "start the embedder; the file is indexed when it answers"
    ),
    "store_away": Exclusion(
        "PostgreSQL does not answer", "start PostgreSQL; the file is indexed when it answers"
    ),
}
_NO_GITIGNORE = "set indexing.respect_gitignore: false in cocosearch.yaml to index them"
SCOPE_EXCLUSIONS: dict[ScopeCode, ScopeExclusion] = {
    "gitignore": ScopeExclusion("by .gitignore", _NO_GITIGNORE),
    "git_excludes": ScopeExclusion(
        "by git's info/exclude or core.excludesFile",
        _NO_GITIGNORE,
        "git's info/exclude or core.excludesFile",
    ),
    "cocosearchignore": ScopeExclusion("by .cocosearchignore", "change that file to index them"),
    "exclude": ScopeExclusion(
        "by indexing.exclude",
        "change that setting to index them",
        "indexing.exclude or indexing.extend_exclude",
    ),
    "built_in": ScopeExclusion(
        "by the built-in exclusions",
        "add `!PATTERN` to indexing.exclude to index them",
        "the built-in exclusions: {detail}",
    ),
    "length": ScopeExclusion(
        "by the length of their paths", "give them shorter paths", "its length: {detail}"
    ),
    "secret_name": ScopeExclusion(
        "with names of secrets",
        "set indexing.index_secrets: true to index them",
        clause="its name is one of files with secrets (indexing.index_secrets)",
    ),
    "include": ScopeExclusion(
        "not in indexing.include",
        "change that setting to index them",
        clause="it matches none of indexing.include",
    ),
    "type": ScopeExclusion(
        "of types that are not indexed",
        "name their types in indexing.extend_include",
        clause="its type is not one that is indexed (indexing.extend_include)",
    ),
}
UNKNOWN = Exclusion(
    "a newer version left it out", "run the newer version, or `cocosearchctl reindex`"
)


def find_exclusion(code: str) -> Exclusion:
    """Return the exclusion of a code; `UNKNOWN` for a code of a newer version."""
    return next((row for row_code, row in EXCLUSIONS.items() if row_code == code), UNKNOWN)


def empty_index_sentence(counts: Mapping[str, int], *, is_complete: bool) -> str:
    """Return one sentence that says why nothing is searchable, from numbers of files by code.

    Unless `is_complete`, there are more files.
    """
    total = sum(counts.values())
    if not total:
        return "nothing is searchable: there are no files yet; a file is indexed when it is saved"
    codes = sorted(counts, key=lambda code: -counts[code])
    causes = ", ".join(f"{counts[code]:,} {_cause_of_several(code)}" for code in codes)
    files = f"all {total:,} files are" if is_complete else f"the first {total:,} files are all"
    if total == 1 and is_complete:
        files = "its only file is"
    remedy = _find_any_exclusion(codes[0]).remedy
    return f"nothing is searchable: {files} left out: {causes}; {remedy}"


def _find_any_exclusion(code: str) -> Exclusion | ScopeExclusion:
    rows = SCOPE_EXCLUSIONS.items()
    return next((row for row_code, row in rows if row_code == code), find_exclusion(code))


def _cause_of_several(code: str) -> str:
    is_scope_code = code in get_args(ScopeCode)
    return _find_any_exclusion(code).cause if is_scope_code else code.replace("_", " ")


def unparsed_sentence(path: str, detail: str) -> str:
    """Return one sentence about a quarantined file; `detail` says how its parser ended."""
    row = EXCLUSIONS["quarantined"]
    return f"{path} is searched as plain text, without definitions: {row.cause} ({detail}); {row.remedy}"


def embedder_failure(error: str) -> str:
    """Return the error of a file that waits for the embedder; `embedder_error` reads it."""
    return f"{EXCLUSIONS['embedder_away'].cause}: {error}"


def embedder_error(failure: str) -> str | None:
    """Return the embedder's error in a file's error; None if the file failed for another reason."""
    prefix = embedder_failure("")
    return failure.removeprefix(prefix) if failure.startswith(prefix) else None


def incomplete_sentence(excluded: Sequence[str], reduced: Sequence[str]) -> str | None:
    """Return one sentence about files that an answer may lack; None if there are none.

    The paths `excluded` are not searched; the paths `reduced` are searched by less than their text.
    """
    parts = [f"{_name_files(excluded)} not at all"] if excluded else []
    parts += [f"{_name_files(reduced)} by less than the text"] if reduced else []
    if not parts:
        return None
    return f"searched {' and '.join(parts)}: `cocosearchctl status` says why"


def _name_files(paths: Sequence[str]) -> str:
    further = len(paths) - 1
    files = "file" if further == 1 else "files"
    return f"{paths[0]} and {further:,} more {files}" if further else paths[0]


def exclusion_sentence(path: str, code: str) -> str:
    """Return one sentence: the path, the cause and the remedy."""
    row = find_exclusion(code)
    return f"{path} is not searched: {row.cause}; {row.remedy}"
