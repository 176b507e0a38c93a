"""Scope: is this path in? Built-in exclusions, then ignore rules as git has them, then the user's
patterns, then types.

A Scope is a snapshot: it reads each ignore file once, when it first needs it. Edits of ignore files
make a new one, so that no decision mixes old and new rules. Safe to use from several threads. What
reads one raises `OSError` where that cannot be done now: an ignore file that is not known is not an
empty one.

Precedence, the first that speaks decides: the user's `exclude` patterns (`!` takes back) ·
`.cocosearchignore`, nearest first · built-in exclusions · what git tracks stays · build output
directories · `.gitignore`, nearest first · `info/exclude` · `core.excludesFile`. As in git, nothing
is taken back from inside of an excluded directory.
"""

import os
from collections.abc import Iterable
from dataclasses import replace

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.languages.detect import is_supported
from cocosearchd.model import encode_path
from cocosearchd.watching.git.ignore_files import IgnoreText, read_ignore_file
from cocosearchd.watching.git.repository import (
    GitRules,
    GitTrouble,
    Repository,
    Signature,
    Stamp,
    marker_remark,
    outdated,
    repository_around,
    repository_at,
    stamp,
    stamp_of,
)
from cocosearchd.watching.git.rule_cache import GitRuleCache
from cocosearchd.watching.ignore import default_patterns
from cocosearchd.watching.ignore.ignore_layers import (
    DirectoryRules,
    IgnoreLayer,
    by_git,
    first_decision,
    omission,
    parse_patterns,
    parts_below,
    patterns_of_settings,
)
from cocosearchd.watching.ignore.patterns import EMPTY, Patterns


class Scope:
    """Which paths of one root are in. Paths are bytes, relative to the root, without a leading or
    trailing `/`.
    """

    def __init__(
        self, root: bytes, settings: IndexingSettings, facts: GitRuleCache | None = None
    ) -> None:
        """Blocking: asks git where `facts` are not known."""
        self.root = root
        self._facts = facts or GitRuleCache()
        self._decide_by(settings)
        self._nested: dict[bytes, GitRules] = {}
        # directories with a `.git` that is no repository, or not yet
        self._unborn: set[bytes] = set()
        # ignore files with other names; what those write makes no event here
        self._linked: dict[bytes, Stamp] = {}
        # ignore files of which something is not used -> what, and why
        self._remarks: dict[bytes, str] = {}
        self._above = self._stamps_above()
        self._trouble: GitTrouble | None = None
        self._around = self._find_around()
        self._folders = {b"": self._top()}

    def _decide_by(self, settings: IndexingSettings) -> None:
        self._settings = settings
        self._exclude = patterns_of_settings(*settings.exclude, *settings.extend_exclude)
        self._include = patterns_of_settings(*settings.include) if settings.include else None
        self._also = patterns_of_settings(*settings.extend_include)

    def renewed(self) -> "Scope":
        """The scope of now. Blocking."""
        return Scope(self.root, self._settings, self._facts)

    def anew(self, settings: IndexingSettings) -> "Scope":
        """The scope of now by other settings, with git asked again whatever is known. Blocking."""
        return Scope(self.root, settings, self._facts.doubted())

    def by(self, settings: IndexingSettings) -> "Scope":
        """The same scope by other settings, with what git said before: while none can be made anew.
        Reads nothing.
        """
        fresh = self.without(b"")
        fresh._decide_by(settings)
        if not settings.respect_gitignore:
            fresh._around = None
        return fresh

    def without(self, *trees: bytes) -> "Scope":
        """The same scope, but the ignore files at and below these directories will be read
        again.
        """
        fresh = Scope.__new__(Scope)
        fresh.__dict__.update(self.__dict__)
        leads = tuple(tree + b"/" if tree else b"" for tree in trees)
        fresh._folders = {
            p: f for p, f in list(self._folders.items()) if not (p + b"/").startswith(leads)
        }
        fresh._nested = {p: r for p, r in list(self._nested.items()) if p in fresh._folders}
        fresh._unborn = {p for p in list(self._unborn) if p in fresh._folders or not p}
        fresh._linked = {
            p: s for p, s in list(self._linked.items()) if p.rpartition(b"/")[0] in fresh._folders
        }
        again = self._folders.keys() - fresh._folders.keys()
        fresh._remarks = {
            p: r for p, r in list(self._remarks.items()) if p.rpartition(b"/")[0] not in again
        }
        return fresh

    def entered(self, directory: bytes) -> None:
        """The directory, which is not pruned, is watched now: rules of it that were read before may
        be older.
        """
        if directory:
            self._folders.pop(directory, None)

    def outdated(self) -> bool:
        """Whether rules of which no event tells may have changed. A few `stat` calls for each
        repository.
        """
        late = self._trouble is not None and self._trouble.due
        return (
            late or any(map(outdated, self.git_rules())) or self._seen_otherwise() or self._born()
        )

    def _seen_otherwise(self) -> bool:
        """Whether ignore files above the root, or those with several names, are not as they
        were.
        """
        linked = (
            stamp(os.path.join(self.root, path)) != seen
            for path, seen in list(self._linked.items())
        )
        return self._stamps_above() != self._above or any(linked)

    def troubles(self) -> dict[bytes, GitTrouble]:
        """Directories of repositories that git did not answer for. Of one around the root, "" is
        the directory.
        """
        around = self._trouble or (self._around.trouble if self._around else None)
        found = {directory: rules.trouble for directory, rules in list(self._nested.items())}
        return {
            directory: trouble for directory, trouble in ({b"": around} | found).items() if trouble
        }

    def doubts(self) -> tuple[bytes, ...]:
        """Directories of which git could not be asked for now: that something in them is out of
        scope may be wrong.
        """
        return tuple(directory for directory, trouble in self.troubles().items() if trouble.passes)

    def remarks(self) -> tuple[str, ...]:
        """What of ignore files and repositories is not used, and why: one sentence each."""
        of_git = (remark for rules in self.git_rules() for remark in rules.remarks)
        settings = {
            "exclude": self._exclude,
            "include": self._include or EMPTY,
            "extend_include": self._also,
        }
        of_settings = (omission(f"indexing.{name}", parsed) for name, parsed in settings.items())
        return tuple(
            filter(None, dict.fromkeys((*of_git, *of_settings, *list(self._remarks.values()))))
        )

    def _born(self) -> bool:
        """Whether `git init` has got further: no event comes from inside of a `.git`."""
        return any(
            repository_at(os.path.join(self.root, directory)) for directory in list(self._unborn)
        )

    def _stamps_above(self) -> Signature:
        """Of what no event tells: ignore files and repositories above the root, and the user's
        patterns without one.
        """
        if not self._settings.respect_gitignore:
            return ()
        found = [stamp(self._facts.default_excludes())]
        directory = self.root
        while (parent := os.path.dirname(directory)) != directory:
            directory = parent
            repository = (
                stamp(os.path.join(directory, b".git")) if repository_at(directory) else None
            )
            # The time of a git directory is of no account, as it changes all the time.
            found += [
                stamp(os.path.join(directory, b".gitignore")),
                repository and (repository[0], 0, 0, 0),
            ]
        return tuple(found)

    def refreshed(self) -> "Scope | None":
        """A scope that knows what git knows now; None if files may be in or out that were not: then
        all is to be seen.

        Every `git add` and `git commit` comes by here. Blocking.
        """
        fresh = self.renewed()
        if fresh._above != self._above or self._seen_otherwise() or self._born():
            return None
        fresh._unborn |= self._unborn
        fresh._linked = self._linked | fresh._linked
        fresh._remarks = self._remarks | fresh._remarks
        if fresh._around != self._around and not self._harmless(b"", self._around, fresh._around):
            return None
        for directory, old in list(self._nested.items()):
            repository = repository_at(os.path.join(self.root, directory))
            new = self._facts.rules(repository) if repository else None
            if new != old and not self._harmless(directory + b"/", old, new):
                return None
            if new is not None:
                # what it knows before a path leads there: it would not notice a change
                fresh._nested[directory] = new
        answers = set(self.doubts()) - set(fresh.doubts())
        return None if answers else fresh  # what was kept while git failed may have to go

    def _harmless(self, lead: bytes, old: GitRules | None, new: GitRules | None) -> bool:
        """Whether a repository tracks more or less than before, but nothing that rules would
        hide.
        """
        if old is None or new is None or replace(old, tracked=()) != replace(new, tracked=()):
            return False
        outer = self._folder(b"").outer if not lead else b""
        changed = (path for path in set(old.tracked) ^ set(new.tracked) if path.startswith(outer))
        inner = (lead + path.removeprefix(outer) for path in changed)
        return not any(self._hides_file(path) or self._hides_submodule(path) for path in inner)

    def _hides_file(self, path: bytes) -> bool:
        return self.considers(path.rpartition(b"/")[2]) and self._hidden(path)

    def _hides_submodule(self, path: bytes) -> bool:
        return os.path.isdir(os.path.join(self.root, path)) and self._hidden_directory(path)

    def git_rules(self) -> tuple[GitRules, ...]:
        """The rules of every repository met so far, the one around the root first."""
        return (*([self._around] if self._around else ()), *list(self._nested.values()))

    def prunes(self, directory: bytes) -> bool:
        """Whether nothing in a directory can be in scope. Reads what is above the directory only:
        see `entered`.
        """
        if not directory:
            return False
        above, _, name = directory.rpartition(b"/")
        parent = self._folder(above)
        out = parent.out or self._excluded(parent, directory + b"/", name + b"/")
        if out:
            self._folders[directory] = DirectoryRules(out=True)
        return out

    def allows(self, path: bytes) -> bool:
        """Whether a file is in scope, if it is a regular file."""
        directory, _, name = path.rpartition(b"/")
        return self.considers(name) and self._allows_in(self._folder(directory), path, name)

    def considers(self, name: bytes) -> bool:
        """Whether files of this name can be in scope at all; cheap, reads nothing."""
        wanted = (
            self._include is not None or self._also is not EMPTY or is_supported(encode_path(name))
        )
        return wanted and not self._secret(name, name)

    def filter_files(self, directory: bytes, names: Iterable[bytes]) -> list[bytes]:
        """The names of a directory's files that are in scope."""
        folder = self._folder(directory)
        lead = directory + b"/" if directory else b""
        return (
            []
            if folder.out
            else [name for name in names if self._allows_in(folder, lead + name, name)]
        )

    def excludes(self, path: bytes, *, directory: bool = False) -> bool:
        """Whether ignore rules and exclusions leave a path out, whatever its type is."""
        above, _, name = path.rpartition(b"/")
        end = b"/" if directory else b""
        folder = self._folder(above)
        return folder.out or self._excluded(folder, path + end, name + end)

    def _allows_in(self, folder: DirectoryRules, path: bytes, name: bytes) -> bool:
        """Also of a name that is not considered: what leaves a name out leaves out every path that
        ends in it.
        """
        if folder.out or self._excluded(folder, path, name) or self._secret(path, name):
            return False
        if self._also is not EMPTY and self._also.ignores(path, name) is True:
            return True
        if self._include is not None:
            return self._include.ignores(path, name) is True
        return is_supported(encode_path(name))

    def _secret(self, path: bytes, name: bytes) -> bool:
        return (
            not self._settings.index_secrets
            and default_patterns.SECRETS.ignores(path, name) is True
        )

    def _excluded(self, folder: DirectoryRules, path: bytes, name: bytes) -> bool:
        """Of an entry of `folder`; directories end in `/`."""
        if name == b".git/" or name == b".git" or default_patterns.too_long(path):
            # whatever a cloned repository's own settings take back: credentials may be in there
            return True
        decision = self._exclude.ignores(path, name)
        if decision is None:
            decision = first_decision(folder.ours, path, name)
        if decision is not None:
            return decision
        return default_patterns.EXCLUDED.ignores(path, name) is True or (
            by_git(folder, path, name) and not folder.tracks(path)
        )

    def _hidden(self, path: bytes) -> bool:
        """Whether a file would be out, or is, if nothing were tracked."""
        directory, _, name = path.rpartition(b"/")
        folder = self._folder(directory)
        above = bool(directory) and self._hidden_directory(directory)
        return above or folder.out or by_git(folder, path, name)

    def _hidden_directory(self, directory: bytes) -> bool:
        while directory:
            parent, _, name = directory.rpartition(b"/")
            if by_git(self._folder(parent), directory + b"/", name + b"/"):
                return True
            directory = parent
        return False

    def _folder(self, directory: bytes) -> DirectoryRules:
        missing = list[bytes]()
        while (found := self._folders.get(directory)) is None and directory:
            missing.append(directory)
            directory = directory.rpartition(b"/")[0]
        folder = found or self._folders.setdefault(b"", self._top())
        for path in reversed(missing):
            folder = self._folders[path] = self._make_folder(path, folder)
        return folder

    def _make_folder(self, directory: bytes, parent: DirectoryRules) -> DirectoryRules:
        name = directory.rpartition(b"/")[2]
        if parent.out or self._excluded(parent, directory + b"/", name + b"/"):
            return DirectoryRules(out=True)
        place, base = os.path.join(self.root, directory), len(directory) + 1
        nested = self._repository_at(directory) if self._settings.respect_gitignore else None
        if nested is not None:  # rules of the repository above end here
            known = self._nested.get(directory)
            rules = (
                known
                if known is not None and known.repository == nested
                else self._facts.rules(nested)
            )
            self._nested[directory] = rules
            layers = tuple(IgnoreLayer(exclude, base) for exclude in self._excludes(rules))
            parent = replace(parent, hidden=False, gits=layers, rules=rules, base=base, outer=b"")
        elif by_git(parent, directory + b"/", name + b"/") and parent.tracks(directory + b"/"):
            parent = replace(parent, hidden=True)
        return self._with_files(parent, place, base)

    def _find_around(self) -> GitRules | None:
        if not self._settings.respect_gitignore:
            return None
        repository = self._repository_at(b"") or repository_around(self.root)
        if repository is None:
            return None
        rules = self._facts.rules(repository)
        if rules.unknown or not self._hides_root(rules):
            return rules
        self._trouble = (
            rules.trouble if rules.trouble is not None and rules.trouble.passes else None
        )
        return None  # somebody wants an ignored directory indexed: then only what is in it counts

    def _hides_root(self, rules: GitRules) -> bool:
        """Whether a repository ignores the root or a directory above it, by patterns alone:
        gitignore(5).
        """
        top, directory = rules.repository.top, b""
        layers = [IgnoreLayer(exclude, 0) for exclude in self._excludes(rules)]
        for part in parts_below(top, self.root):
            here = self._patterns(
                os.path.join(top, directory, b".gitignore"), ignore_case=rules.ignore_case
            )
            layers.insert(0, IgnoreLayer(here, len(directory)))
            directory += part + b"/"
            if first_decision(layers, directory, part + b"/") is True:
                return True
        return False

    def _repository_at(self, directory: bytes) -> Repository | None:
        place = os.path.join(self.root, directory) if directory else self.root
        found = repository_at(place)
        marker = os.path.join(directory, b".git")
        self._remarks.pop(marker, None)
        if found is None and os.path.lexists(os.path.join(place, b".git")):
            self._unborn.add(directory)
            if remark := marker_remark(place):
                self._remarks[marker] = remark
        return found

    def _top(self) -> DirectoryRules:
        folder, around = DirectoryRules(out=False), self._around
        if around is not None:
            folder = self._below_top(around)
        elif self._settings.respect_gitignore:
            layer = IgnoreLayer(
                self._patterns(
                    self._facts.default_excludes(), ignore_case=False, follow_links=True
                ),
                0,
            )
            folder = replace(folder, gits=(layer,))
        return self._with_files(folder, self.root, 0)

    def _below_top(self, around: GitRules) -> DirectoryRules:
        """What the repository around the root, which may start above it, says of the root's
        entries.
        """
        top, case = around.repository.top, around.ignore_case
        parts = parts_below(top, self.root)
        lead = b"".join(part + b"/" for part in parts)
        layers = [IgnoreLayer(exclude, 0, lead) for exclude in self._excludes(around)]
        for depth in range(len(parts)):
            rules = self._patterns(
                os.path.join(top, *parts[:depth], b".gitignore"), ignore_case=case
            )
            layers.insert(0, IgnoreLayer(rules, 0, b"".join(part + b"/" for part in parts[depth:])))
        return DirectoryRules(out=False, gits=tuple(layers), rules=around, outer=lead)

    def _with_files(self, folder: DirectoryRules, place: bytes, base: int) -> DirectoryRules:
        if self._settings.respect_gitignore:
            theirs = self._in_tree(
                os.path.join(place, b".gitignore"), ignore_case=folder.ignore_case
            )
            if theirs is not EMPTY:
                folder = replace(folder, gits=(IgnoreLayer(theirs, base), *folder.gits))
        ours = self._in_tree(os.path.join(place, b".cocosearchignore"), ignore_case=False)
        return (
            folder
            if ours is EMPTY
            else replace(folder, ours=(IgnoreLayer(ours, base), *folder.ours))
        )

    def _in_tree(self, file: bytes, *, ignore_case: bool) -> Patterns:
        # As git: an ignore file in the tree that is a symbolic link is not read.
        text = read_ignore_file(file, follow_links=False)
        if text.status is not None and text.status.st_nlink > 1:
            self._linked[os.path.relpath(file, self.root)] = stamp_of(text.status)
        return self._parsed(file, text, ignore_case=ignore_case)

    def _patterns(self, file: bytes, *, ignore_case: bool, follow_links: bool = False) -> Patterns:
        """Of a file above or beside the tree. Raises `OSError`."""
        text = read_ignore_file(file, follow_links=follow_links) if file else IgnoreText()
        return self._parsed(file, text, ignore_case=ignore_case)

    def _excludes(self, rules: GitRules) -> list[Patterns]:
        """The patterns of a repository that are in no tree, those with precedence first."""
        files = zip(rules.exclude_files, rules.excludes, strict=True)
        return [
            self._parsed(file, IgnoreText(text), ignore_case=rules.ignore_case)
            for file, text in files
        ]

    def _parsed(self, file: bytes, text: IgnoreText, *, ignore_case: bool) -> Patterns:
        parsed = parse_patterns(text.content, ignore_case)
        key = os.path.relpath(file, self.root) if file else b""
        self._remarks.pop(key, None)
        if remark := text.remark or omission(encode_path(file), parsed):
            self._remarks[key] = remark
        return parsed
