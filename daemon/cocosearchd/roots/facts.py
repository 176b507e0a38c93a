"""What git said of the repositories around and below one root: kept, and asked for again when it may be another."""

from dataclasses import replace

from cocosearchd.roots.git import (
    GitRules,
    Repository,
    Silent,
    Trouble,
    default_excludes_file,
    hides,
    outdated,
    read_rules,
    signature,
)


class Facts:
    """Kept for as long as the files that they come from stay as they are; those of before while git fails."""

    def __init__(self) -> None:
        self._rules: dict[bytes, GitRules] = {}
        self._hidden: tuple[bool, Trouble | None] = (False, None)
        self._default: bytes | None = None

    def doubted(self) -> "Facts":
        """The same, but git is asked again for each of them."""
        fresh = Facts()
        fresh._rules = {top: replace(rules, read_at=()) for top, rules in list(self._rules.items())}
        fresh._hidden, fresh._default = self._hidden, self._default
        return fresh

    def rules(self, repository: Repository) -> GitRules:
        """Blocking if they are not known."""
        known = self._rules.get(repository.top)
        if known is not None and known.repository != repository:
            known = None
        if known is not None and not outdated(known):
            return known
        while True:  # until nothing changed while git was asked
            files = known.files if known is not None else ()
            before = signature(repository, files)
            known = read_rules(repository, known)
            if known.trouble is not None:  # then it is asked again anyway
                before, files = signature(repository, known.files), known.files
            known = self._rules[repository.top] = replace(known, read_at=before)
            if known.files == files and not outdated(known):
                return known

    def hides(self, repository: Repository, root: bytes) -> tuple[bool, Trouble | None]:
        """Whether the repository around the root ignores it; the answer of before while git fails. Blocking."""
        hidden, met = self._hidden
        try:
            self._hidden = hides(repository, root), None
        except Silent as error:
            self._hidden = hidden, Trouble.of(error, met)
        return self._hidden

    def default_excludes(self) -> bytes:
        """The user's excludes file where no configuration names one."""
        if self._default is None:
            self._default = default_excludes_file()
        return self._default
