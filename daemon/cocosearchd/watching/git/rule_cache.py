"""What git said of the repositories around and below one root: kept, and asked for again when it
may be another.
"""

import time
from dataclasses import replace

from cocosearchd.watching.git.git_command import GitRefused, user_config_files, user_excludes_file
from cocosearchd.watching.git.git_config import UserConfig, read_user_config
from cocosearchd.watching.git.repository import (
    RETRY_MAX_S,
    GitRules,
    Repository,
    Signature,
    outdated,
    read_rules,
    signature,
    stamp,
)


class GitRuleCache:
    """Kept for as long as the files that they come from stay as they are; those of before while git
    fails.
    """

    def __init__(self) -> None:
        self._rules: dict[bytes, GitRules] = {}
        self._user: tuple[UserConfig, Signature] = (UserConfig(), ())
        # why, the files then, when to ask again
        self._refusal: tuple[str, Signature, float] = ("", (), 0.0)

    def doubted(self) -> "GitRuleCache":
        """The same, but git is asked again for each of them."""
        fresh = GitRuleCache()
        fresh._rules = {
            top: replace(rules, read_at=(), configured_at=())
            for top, rules in list(self._rules.items())
        }
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
            known = read_rules(repository, self.user_config, known)
            if known.trouble is not None:  # then it is asked again anyway
                before, files = signature(repository, known.files), known.files
            known = self._rules[repository.top] = replace(known, read_at=before)
            if known.files == files and not outdated(known):
                return known

    def user_config(self) -> UserConfig:
        """Return what the system and the user configure for all repositories. Raises `GitRefused`
        and `Silent`.
        """
        config, stamps = self._user
        # until nothing changed while git was asked
        while stamps != (now := _user_signature(config)):
            config, stamps = self._asked(now), now
        self._user = config, stamps
        return config

    def _asked(self, stamps: Signature) -> UserConfig:
        """The user's configuration, asked for; not soon again after a refusal, as that may take
        seconds.
        """
        why, met, again_at = self._refusal
        if why and met == stamps and time.monotonic() < again_at:
            raise GitRefused(why)
        try:
            return read_user_config()
        except GitRefused as error:
            self._refusal = str(error), stamps, time.monotonic() + RETRY_MAX_S
            raise

    def default_excludes(self) -> bytes:
        """The user's excludes file where no configuration names one."""
        return user_excludes_file()


def _user_signature(config: UserConfig) -> Signature:
    return tuple(stamp(path) for path in dict.fromkeys((*user_config_files(), *config.files)))
