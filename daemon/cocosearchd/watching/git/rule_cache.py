"""A cache of git's rules for the repositories around and below one root."""

import time
from collections.abc import Iterable
from dataclasses import replace

from cocosearchd.watching.git.git_command import GitRefused, user_config_files, user_excludes_file
from cocosearchd.watching.git.git_config import UserConfig, read_user_config
from cocosearchd.watching.git.repository import (
    RETRY_MAX_S,
    GitRules,
    Repository,
    read_rules,
    rules_outdated,
    signature,
)
from cocosearchd.watching.git.stamps import Signature, stamp


class GitRuleCache:
    """Rules stay cached while the files that they come from are unchanged, or while git fails."""

    def __init__(self) -> None:
        self._rules: dict[bytes, GitRules] = {}
        self._user: tuple[UserConfig, Signature] = (UserConfig(), ())
        # the reason, the signature of the files, and when to ask again
        self._refusal: tuple[str, Signature, float] = ("", (), 0.0)

    def invalidated(self) -> "GitRuleCache":
        """Return a copy that asks git again for each repository."""
        renewed = GitRuleCache()
        renewed._rules = {
            top: replace(rules, read_at=(), configured_at=())
            for top, rules in list(self._rules.items())
        }
        return renewed

    def retain(self, rules: Iterable[GitRules]) -> None:
        """Forget all other rules: a scan of the whole root has met these repositories only."""
        tops = {entry.repository.top for entry in rules}
        for top in list(self._rules):
            if top not in tops:
                self._rules.pop(top, None)

    def rules(self, repository: Repository) -> GitRules:
        """Return the rules of a repository. Blocking if they are not cached."""
        rules = self._rules.get(repository.top)
        if rules is not None and rules.repository != repository:
            rules = None
        if rules is not None and not rules_outdated(rules):
            return rules
        while True:  # until nothing changed while git was asked
            files = rules.files if rules is not None else ()
            read_at = signature(repository, files)
            rules = read_rules(repository, self.user_config, rules)
            if rules.failure is not None:  # git is asked again anyway after a failure
                files = rules.files
                read_at = signature(repository, files)
            rules = self._rules[repository.top] = replace(rules, read_at=read_at)
            if rules.files == files and not rules_outdated(rules):
                return rules

    def user_config(self) -> UserConfig:
        """Return what the system and the user configure for all repositories.

        Raises `GitRefused` and `GitUnresponsive`.
        """
        config, stamps = self._user
        # until nothing changed while git was asked
        while stamps != (current := _user_signature(config)):
            config = self._read_user_config(current)
            stamps = current
        self._user = (config, stamps)
        return config

    def _read_user_config(self, stamps: Signature) -> UserConfig:
        """Ask git for the user's configuration, but not soon after a slow refusal."""
        reason, refused_stamps, retry_at = self._refusal
        if reason and refused_stamps == stamps and time.monotonic() < retry_at:
            raise GitRefused(reason)
        try:
            return read_user_config()
        except GitRefused as error:
            self._refusal = (str(error), stamps, time.monotonic() + RETRY_MAX_S)
            raise

    def default_excludes(self) -> bytes:
        """Return the default path of the user's excludes file."""
        return user_excludes_file()


def _user_signature(config: UserConfig) -> Signature:
    return tuple(stamp(path) for path in dict.fromkeys((*user_config_files(), *config.files)))
