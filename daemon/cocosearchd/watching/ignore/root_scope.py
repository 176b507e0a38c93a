"""Decides which paths of a root are in scope, by exclusions, ignore rules, patterns and types.

A `RootScope` is a snapshot: it reads each ignore file once, when it first needs the file. An edit of
an ignore file makes a new scope: no decision mixes old and new rules. Safe to use from several
threads. Methods that read an ignore file raise `OSError` if they cannot read it now: they do not
treat an unknown ignore file as empty.

Precedence, the first rule that matches decides: the user's `exclude` patterns (`!` includes again) ·
`.cocosearchignore`, nearest first · built-in exclusions · what git tracks stays · build output
directories · `.gitignore`, nearest first · `info/exclude` · `core.excludesFile`. As in git, no
pattern includes again an entry of an excluded directory.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.forms.path_forms import path_text
from cocosearchd.forms.tree_filter import TreeFilter
from cocosearchd.languages.detect import is_supported
from cocosearchd.watching.git.repository import (
    GitFailure,
    GitRules,
    MarkerStamps,
    Repository,
    marker_stamps,
    marker_warning,
    repository_around,
    repository_at,
    rules_outdated,
    uncertain_directories,
)
from cocosearchd.watching.git.rule_cache import GitRuleCache
from cocosearchd.watching.git.stamps import (
    Signature,
    Stamp,
    own_stamp,
    stamp_of,
)
from cocosearchd.watching.ignore import default_patterns
from cocosearchd.watching.ignore.ignore_layers import (
    DirectoryRules,
    ExcludingRules,
    IgnoreLayer,
    excluding_layer,
    first_decision,
    fits,
    is_left_out_unless_tracked,
    last_part,
    omission_warning,
    parts_below,
    patterns_of_settings,
)
from cocosearchd.watching.ignore.outside_stamps import OutsideStamps
from cocosearchd.watching.ignore.pattern_cache import PatternCache, without_patterns
from cocosearchd.watching.ignore.patterns import EMPTY, Patterns
from cocosearchd.watching.ignore_files import (
    COCOSEARCHIGNORE,
    GITIGNORE,
    IgnoreText,
    read_ignore_file,
)

Value = TypeVar("Value")


class RootScope:
    """The scope of one root. Paths are bytes, relative to the root, without `/` at either end.

    `rule_cache` has git's rules of the repositories that this scope and earlier ones have met.
    """

    def __init__(
        self,
        root: bytes,
        settings: IndexingSettings,
        rule_cache: GitRuleCache | None = None,
        pattern_cache: PatternCache | None = None,
    ) -> None:
        """Read the rules around the root. Blocking: asks git for rules that `rule_cache` lacks."""
        self.root = root
        self.rule_cache = rule_cache or GitRuleCache()
        self._pattern_cache = pattern_cache or PatternCache()
        self._set_patterns(settings)
        self._nested: dict[bytes, GitRules] = {}  # directory -> rules of the repository there
        # directories with a `.git` that is no repository, or not yet
        self._incomplete: dict[bytes, MarkerStamps] = {}
        # ignore files with further hard links; a write through such a name makes no event here
        self._linked: dict[bytes, Stamp] = {}
        # ignore files that are not used completely -> a sentence with the reason
        self._warnings: dict[bytes, str] = {}
        self._stamps_outside = self._read_stamps_outside()
        self._failure: GitFailure | None = None
        # rules of a repository that ignores the root: not used, but each new scope asks for them
        self._ignoring: GitRules | None = None
        self._around = self._rules_around()
        self._folders = {b"": self._top_rules()}

    def _set_patterns(self, settings: IndexingSettings) -> None:
        self._settings = settings
        self._exclude = patterns_of_settings(*settings.exclude, *settings.extend_exclude)
        self._include = patterns_of_settings(*settings.include) if settings.include else None
        self._extend_include = patterns_of_settings(*settings.extend_include)

    def renew(self, settings: IndexingSettings | None = None) -> "RootScope":
        """Return the current scope. Blocking.

        With `settings`, the new scope follows them, and asks git again for everything.
        """
        if settings is None:
            return RootScope(
                self.root, self._settings, self.rule_cache, self._pattern_cache.renewed()
            )
        return RootScope(
            self.root, settings, self.rule_cache.invalidated(), self._pattern_cache.renewed()
        )

    def with_settings(self, settings: IndexingSettings) -> "RootScope":
        """Return the scope by other settings, with git's old answers. Reads nothing.

        It serves while `renew` fails.
        """
        renewed = self.without_trees(b"")
        renewed._set_patterns(settings)
        if not settings.respect_gitignore:
            renewed._around = None
        return renewed

    def without_trees(self, *trees: bytes) -> "RootScope":
        """Return the same scope without the rules at and below these directories.

        Their ignore files will be read again.
        """
        renewed = RootScope.__new__(RootScope)
        renewed.__dict__.update(self.__dict__)
        folders = dict(self._folders)
        dropped_trees = TreeFilter(trees, b"/")
        dropped = set(filter(dropped_trees.covers, folders))
        for path in dropped:
            del folders[path]
        renewed._folders = folders
        renewed._nested = _select(self._nested, folders.__contains__)
        renewed._incomplete = _select(self._incomplete, lambda path: path in folders or not path)
        renewed._linked = _select(self._linked, lambda file: file.rpartition(b"/")[0] in folders)
        renewed._warnings = _select(
            self._warnings, lambda file: file.rpartition(b"/")[0] not in dropped
        )
        return renewed

    def reread_on_entry(self, directory: bytes) -> None:
        """Drop the rules of a directory in scope whose watch has just begun.

        Rules that were read before the watch may be outdated without an event.
        """
        if directory:
            self._folders.pop(directory, None)

    def outdated(
        self, limit: int | None = None, outside: OutsideStamps | None = None
    ) -> bool | None:
        """Return whether rules that no event announces may have changed.

        Some `stat` calls for each entry: a repository below the root, a `.git` that is no
        repository, an ignore file with several names. A `limit` keeps the call quick: None if there
        are more entries, or if another file system or a link has to be asked. `outside` has stamps
        that were read for other roots.
        """
        if limit is not None and self._takes_long(limit):
            return None
        stamps_outside = self._read_stamps_outside(outside, quick=limit is not None)
        if stamps_outside is None:
            return None
        retry_due = self._failure is not None and self._failure.due
        return (
            retry_due
            or stamps_outside != self._stamps_outside
            or any(map(rules_outdated, self.git_rules()))
            or self._linked_files_changed()
            or self._notice_completed_repository()
        )

    def _takes_long(self, limit: int) -> bool:
        """Return whether a check takes many calls, or some that may hang."""
        entries = len(self._nested) + len(self._incomplete) + len(self._linked)
        return entries > limit or self._leads_elsewhere() or bool(self._changed_markers())

    def _leads_elsewhere(self) -> bool:
        """Return whether a `.git` leads to another file system or behind a link: calls may hang."""
        return any(rules.repository.elsewhere for rules in self.git_rules()) or any(
            not file.is_own for stamps in list(self._incomplete.values()) for file in stamps
        )

    def _linked_files_changed(self) -> bool:
        """Return whether ignore files with several names have changed."""
        return any(
            own_stamp(os.path.join(self.root, path)) != old
            for path, old in list(self._linked.items())
        )

    def git_failures(self) -> dict[bytes, GitFailure]:
        """Return the failures of git by directory of the repository.

        For a repository around the root the directory is b"".
        """
        around = self._failure or (self._around.failure if self._around else None)
        if around is None and not self._nested:
            return {}
        nested = {directory: rules.failure for directory, rules in list(self._nested.items())}
        return {
            directory: failure for directory, failure in ({b"": around} | nested).items() if failure
        }

    def warnings(self) -> tuple[str, ...]:
        """Return one sentence for each part of the rules that is not used, with the reason."""
        git_warnings = (warning for rules in self.git_rules() for warning in rules.warnings)
        settings = {
            "exclude": self._exclude,
            "include": self._include or EMPTY,
            "extend_include": self._extend_include,
        }
        omissions = (
            omission_warning(f"indexing.{name}", parsed) for name, parsed in settings.items()
        )
        file_warnings = list(self._warnings.values())
        return tuple(filter(None, dict.fromkeys((*git_warnings, *omissions, *file_warnings))))

    def _changed_markers(self) -> list[bytes]:
        """Return the directories whose `.git` was no repository, and may be one now."""
        return [
            directory
            for directory, stamps in list(self._incomplete.items())
            if any(file.stamp() != old for file, old in stamps.items())
        ]

    def _notice_completed_repository(self) -> bool:
        """Return whether `git init` has ended, and note the stamps: a `.git` gives no events."""
        for directory in self._changed_markers():
            path = os.path.join(self.root, directory)
            current = marker_stamps(path)
            if repository_at(path):
                return True
            self._incomplete[directory] = current
        return False

    def _read_stamps_outside(
        self, outside: OutsideStamps | None = None, *, quick: bool = False
    ) -> Signature | None:
        """Return the stamps of the files outside of the root that shape its rules.

        The user's patterns hold for roots without a repository. With `quick`, None if there is a
        link.
        """
        if not self._settings.respect_gitignore:
            return ()
        stamps = outside or OutsideStamps()
        return stamps.read(self.root, self.rule_cache.default_excludes, quick=quick)

    def refresh_git(self) -> "RootScope | None":
        """Return a scope with git's current answers, if they change no decision.

        None if files may come into the scope or leave it: then the whole root must be scanned.
        Every `git add` and `git commit` ends here. Blocking.
        """
        renewed = self.renew()
        if (
            self._read_stamps_outside() != self._stamps_outside
            or renewed._stamps_outside != self._stamps_outside
            or self._linked_files_changed()
            or self._notice_completed_repository()
        ):
            return None
        renewed._incomplete = self._incomplete | renewed._incomplete
        renewed._linked = self._linked | renewed._linked
        renewed._warnings = self._warnings | renewed._warnings
        if not (
            self._is_harmless(b"", self._around, renewed._around) and self._refresh_nested(renewed)
        ):
            return None
        recovered = set(uncertain_directories(self.git_failures())) - set(
            uncertain_directories(renewed.git_failures())
        )
        return (
            None if recovered else renewed
        )  # files that were kept while git failed may have to go

    def _refresh_nested(self, renewed: "RootScope") -> bool:
        """Give a new scope the rules of nested repositories. False if a decision may change."""
        for directory, old in list(self._nested.items()):
            repository = repository_at(os.path.join(self.root, directory))
            new = self.rule_cache.rules(repository) if repository else None
            if not self._is_harmless(directory + b"/", old, new):
                return False
            if new is not None:
                # Stored before a path leads there: a later change is noticed.
                renewed._nested[directory] = new
        return True

    def _is_harmless(self, prefix: bytes, old: GitRules | None, new: GitRules | None) -> bool:
        """Return whether old and new rules differ at most in tracked paths that no rule would hide.

        `prefix` is the directory of the repository with a `/`, or b"" for one around the root.
        """
        if old == new:
            return True
        if old is None or new is None or replace(old, tracked=()) != replace(new, tracked=()):
            return False
        outer = self._folder(b"").outer if not prefix else b""
        changed = (path for path in set(old.tracked) ^ set(new.tracked) if path.startswith(outer))
        inner = (prefix + path.removeprefix(outer) for path in changed)
        return not any(map(self._is_ignored_unless_tracked, inner))

    def _is_ignored_unless_tracked(self, path: bytes) -> bool:
        """Return whether a rule hides a file, or the directory of a submodule."""
        if self.may_be_in_scope(path.rpartition(b"/")[2]) and self._is_ignored_unless_tracked_file(
            path
        ):
            return True
        return os.path.isdir(
            os.path.join(self.root, path)
        ) and self._is_ignored_unless_tracked_directory(path)

    def git_rules(self, *, with_unused: bool = False) -> tuple[GitRules, ...]:
        """Return the rules of every repository met so far, the one around the root first.

        `with_unused` also those of a repository that ignores the root.
        """
        unused = self._ignoring if with_unused else None
        around = (rules for rules in (self._around, unused) if rules is not None)
        return (*around, *list(self._nested.values()))

    def is_pruned(self, directory: bytes) -> bool:
        """Return whether nothing in a directory can be in scope.

        Reads only what is above the directory: see `reread_on_entry`.
        """
        if not directory:
            return False
        above, _, name = directory.rpartition(b"/")
        parent = self._folder(above)
        left_out = parent.left_out or self._is_left_out_in(parent, directory + b"/", name + b"/")
        if left_out:
            self._folders[directory] = DirectoryRules(left_out=True)
        return left_out

    def is_in_scope(self, path: bytes) -> bool:
        """Return whether a path is in scope, if it is a regular file."""
        directory, _, name = path.rpartition(b"/")
        return self.may_be_in_scope(name) and self._is_in_scope_in(
            self._folder(directory), path, name
        )

    def may_be_in_scope(self, name: bytes) -> bool:
        """Return whether files of this name can be in scope at all. Cheap, reads nothing."""
        possible = (
            self._include is not None
            or self._extend_include is not EMPTY
            or is_supported(path_text(name))
        )
        return possible and not self._is_secret(name, name)

    def filter_files(self, directory: bytes, names: Iterable[bytes]) -> list[bytes]:
        """Return the names of a directory's files that are in scope."""
        folder = self._folder(directory)
        if folder.left_out:
            return []
        prefix = directory + b"/" if directory else b""
        return [name for name in names if self._is_in_scope_in(folder, prefix + name, name)]

    def is_left_out(self, path: bytes, *, directory: bool = False) -> bool:
        """Return whether ignore rules and exclusions leave a path out, whatever its type is."""
        above, _, name = path.rpartition(b"/")
        end = b"/" if directory else b""
        folder = self._folder(above)
        return folder.left_out or self._is_left_out_in(folder, path + end, name + end)

    def excluding_rules(self, entry: bytes) -> ExcludingRules:
        """Return the patterns that leave an entry out, by source; a directory ends in `/`."""
        folder = self._folder(entry.rstrip(b"/").rpartition(b"/")[0])
        return ExcludingRules(
            by_settings=self._exclude.ignores(entry, last_part(entry)) is True,
            own_layer=excluding_layer(folder.own_layers, entry),
            git_layer=excluding_layer(folder.git_layers, entry),
        )

    def _is_in_scope_in(self, folder: DirectoryRules, path: bytes, name: bytes) -> bool:
        """Return whether a file of a folder is in scope, without `may_be_in_scope` first.

        A rule that leaves a name out leaves out every path that ends in it.
        """
        if (
            folder.left_out
            or self._is_left_out_in(folder, path, name)
            or self._is_secret(path, name)
        ):
            return False
        if self._extend_include is not EMPTY and self._extend_include.ignores(path, name) is True:
            return True
        if self._include is not None:
            return self._include.ignores(path, name) is True
        return is_supported(path_text(name))

    def _is_secret(self, path: bytes, name: bytes) -> bool:
        return (
            not self._settings.index_secrets
            and default_patterns.SECRETS.ignores(path, name) is True
        )

    def _is_left_out_in(self, folder: DirectoryRules, path: bytes, name: bytes) -> bool:
        """Return whether a rule leaves out an entry of `folder`; directories end in `/`."""
        if name == b".git/" or name == b".git" or default_patterns.too_long(path):
            # even if a cloned repository's settings include it again: it may hold credentials
            return True
        decision = self._exclude.ignores(path, name)
        if decision is None:
            decision = first_decision(folder.own_layers, path, name)
        if decision is not None:
            return decision
        return default_patterns.TOOL_FILES.ignores(path, name) is True or (
            is_left_out_unless_tracked(folder, path, name) and not folder.tracks(path)
        )

    def _is_ignored_unless_tracked_file(self, path: bytes) -> bool:
        """Return whether a file is out of scope, or would be if git did not track it."""
        directory, _, name = path.rpartition(b"/")
        folder = self._folder(directory)
        above = bool(directory) and self._is_ignored_unless_tracked_directory(directory)
        return above or folder.left_out or is_left_out_unless_tracked(folder, path, name)

    def _is_ignored_unless_tracked_directory(self, directory: bytes) -> bool:
        while directory:
            parent, _, name = directory.rpartition(b"/")
            if is_left_out_unless_tracked(self._folder(parent), directory + b"/", name + b"/"):
                return True
            directory = parent
        return False

    def _folder(self, directory: bytes) -> DirectoryRules:
        missing = list[bytes]()
        while (nearest := self._folders.get(directory)) is None and directory:
            missing.append(directory)
            directory = directory.rpartition(b"/")[0]
        folder = nearest or self._folders.setdefault(b"", self._top_rules())
        for path in reversed(missing):
            folder = self._folders[path] = self._make_folder(path, folder)
        return folder

    def _make_folder(self, directory: bytes, parent: DirectoryRules) -> DirectoryRules:
        name = directory.rpartition(b"/")[2]
        if parent.left_out or self._is_left_out_in(parent, directory + b"/", name + b"/"):
            return DirectoryRules(left_out=True)
        base = len(directory) + 1
        nested = self._repository_at(directory) if self._settings.respect_gitignore else None
        if nested is not None:  # rules of the repository above end here
            rules = self._nested.get(directory)
            if rules is None or rules.repository != nested:
                rules = self.rule_cache.rules(nested)
            self._nested[directory] = rules
            layers = tuple(IgnoreLayer(exclude, base) for exclude in self._git_patterns(rules))
            parent = replace(
                parent, kept_by_git=False, git_layers=layers, rules=rules, base=base, outer=b""
            )
        elif is_left_out_unless_tracked(parent, directory + b"/", name + b"/") and parent.tracks(
            directory + b"/"
        ):
            parent = replace(parent, kept_by_git=True)
        return self._with_files(parent, os.path.join(self.root, directory), base)

    def _rules_around(self) -> GitRules | None:
        if not self._settings.respect_gitignore:
            return None
        repository = self._repository_at(b"") or repository_around(self.root)
        if repository is None:
            return None
        rules = self.rule_cache.rules(repository)
        if rules.unknown or not self._is_root_ignored(rules):
            return rules
        self._ignoring = rules
        transient = rules.failure is not None and rules.failure.transient
        self._failure = rules.failure if transient else None
        return None  # the user wants an ignored directory indexed: only rules in it count

    def _is_root_ignored(self, rules: GitRules) -> bool:
        """Return whether patterns of a repository ignore the root or a directory above it.

        See gitignore(5).
        """
        top = rules.repository.top
        directory = b""
        layers = [IgnoreLayer(exclude, 0) for exclude in self._git_patterns(rules)]
        for part in parts_below(top, self.root):
            file = os.path.join(top, directory, GITIGNORE)
            patterns = self._patterns(file, ignore_case=rules.ignore_case)
            layers.insert(0, IgnoreLayer(patterns, len(directory)))
            directory += part + b"/"
            if first_decision(layers, directory, part + b"/") is True:
                return True
        return False

    def _repository_at(self, directory: bytes) -> Repository | None:
        path = os.path.join(self.root, directory) if directory else self.root
        repository = repository_at(path)
        marker = os.path.join(directory, b".git")
        self._warnings.pop(marker, None)
        if repository is None and os.path.lexists(os.path.join(path, b".git")):
            # read before the last check of the repository: any later change is noticed
            self._incomplete[directory] = marker_stamps(path)
            repository = repository_at(path)
            if warning := marker_warning(path):
                self._warnings[marker] = warning
        return repository

    def _top_rules(self) -> DirectoryRules:
        folder = DirectoryRules(left_out=False)
        around = self._around
        if around is not None:
            folder = self._rules_below_top(around)
        elif self._settings.respect_gitignore:
            layer = IgnoreLayer(
                self._patterns(
                    self.rule_cache.default_excludes(), ignore_case=False, follow_links=True
                ),
                0,
            )
            folder = replace(folder, git_layers=(layer,))
        return self._with_files(folder, self.root, 0)

    def _rules_below_top(self, around: GitRules) -> DirectoryRules:
        """Return the rules of the repository around the root for the root's entries.

        Its top is the root, or a directory above it.
        """
        top = around.repository.top
        parts = parts_below(top, self.root)
        outer = b"".join(part + b"/" for part in parts)
        layers = [IgnoreLayer(exclude, 0, outer) for exclude in self._git_patterns(around)]
        for depth in range(len(parts)):
            file = os.path.join(top, *parts[:depth], GITIGNORE)
            patterns = self._patterns(file, ignore_case=around.ignore_case)
            below = b"".join(part + b"/" for part in parts[depth:])
            layers.insert(0, IgnoreLayer(patterns, 0, below, file))
        return DirectoryRules(left_out=False, git_layers=tuple(layers), rules=around, outer=outer)

    def _with_files(self, folder: DirectoryRules, path: bytes, base: int) -> DirectoryRules:
        """Add the ignore files of the directory itself. `path` is absolute."""
        if self._settings.respect_gitignore:
            file = os.path.join(path, GITIGNORE)
            layers = self._with_file(file, folder.git_layers, base, ignore_case=folder.ignore_case)
            if layers is not folder.git_layers:
                folder = replace(folder, git_layers=layers)
        file = os.path.join(path, COCOSEARCHIGNORE)
        layers = self._with_file(file, folder.own_layers, base, ignore_case=False)
        return folder if layers is folder.own_layers else replace(folder, own_layers=layers)

    def _with_file(
        self, file: bytes, layers: tuple[IgnoreLayer, ...], base: int, *, ignore_case: bool
    ) -> tuple[IgnoreLayer, ...]:
        """Add the layer of an ignore file in the tree, if it has patterns."""
        # As git: an ignore file in the tree that is a symbolic link is not read.
        text = read_ignore_file(file, follow_links=False)
        if text.status is not None and text.status.st_nlink > 1:
            self._linked[os.path.relpath(file, self.root)] = stamp_of(text.status)
        patterns = self._parsed(file, text, ignore_case=ignore_case, layers=layers)
        return (IgnoreLayer(patterns, base, file=file), *layers) if patterns.is_used else layers

    def _patterns(self, file: bytes, *, ignore_case: bool, follow_links: bool = False) -> Patterns:
        """Return the patterns of a file above or beside the tree. Raises `OSError`."""
        text = read_ignore_file(file, follow_links=follow_links) if file else IgnoreText()
        return self._parsed(file, text, ignore_case=ignore_case)

    def _git_patterns(self, rules: GitRules) -> list[Patterns]:
        """Return the patterns of a repository that are in no tree, by falling precedence."""
        files = zip(rules.exclude_files, rules.excludes, strict=True)
        return [
            self._parsed(file, IgnoreText(text), ignore_case=rules.ignore_case)
            for file, text in files
        ]

    def _parsed(
        self,
        file: bytes,
        text: IgnoreText,
        *,
        ignore_case: bool,
        layers: Sequence[IgnoreLayer] = (),
    ) -> Patterns:
        """Return the patterns of a file in front of `layers`; none if both are too many together."""
        parsed = self._pattern_cache.parse(text.content, ignore_case=ignore_case)
        if parsed.is_used and not fits(parsed, layers):
            parsed = without_patterns(text.content)
        key = os.path.relpath(file, self.root) if file else b""
        self._warnings.pop(key, None)
        if warning := text.warning or omission_warning(path_text(file), parsed):
            self._warnings[key] = warning
        return parsed


def _select(entries: Mapping[bytes, Value], keep: Callable[[bytes], bool]) -> dict[bytes, Value]:
    """Select entries by their keys; other threads may add some meanwhile."""
    return {key: value for key, value in list(entries.items()) if keep(key)}
