"""`cocosearchd`: flags → settings → `service.run` → exit code.

Exit codes: 0 stopped, 69 PostgreSQL cannot be used, 75 already running, 78 bad settings, 1 anything else (sysexits.h).
"""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from cocosearch_ipc import address
from cocosearch_ipc.protocol import Failure
from cocosearchd import logs, service
from cocosearchd.errors import BadSettings, Conflict, StoreUnavailable
from cocosearchd.settings import Loaded
from cocosearchd.settings_layers import load

log = logging.getLogger("cocosearchd")

EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_RUNNING, EXIT_SETTINGS = 1, 69, 75, 78


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon in the foreground; the exit code of the process."""
    flags = _parser().parse_args(arguments)
    env = _environment(flags)

    def read() -> Loaded:
        return load(Path(address.config_file(env)), env, _overrides(flags.set))

    try:
        found = read()
        logs.configure(found.settings.log.level, found.settings.log.format, Path(address.log_file(env)))
        anyio.run(service.run, found, service.Places.of(env, found.settings, os.getpid(), read))
    except Failure as failure:
        return _end(failure)
    except OSError as error:
        hint = "set COCOSEARCH_STATE_DIR and COCOSEARCH_RUNTIME_DIR to directories that can be written"
        return _end(Failure(f"{error.filename or 'a file'}: {error.strerror or error}", hint))
    except BaseExceptionGroup as group:
        first = _first_failure(group)
        if first is None:
            raise
        return _end(first)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cocosearchd",
        description="The code-search daemon, in the foreground. `cocosearchctl up DIRECTORY` starts it for you.",
        epilog="Exit codes: 0 stopped, 69 no PostgreSQL, 75 already running, 78 bad settings, 1 anything else.",
    )
    parser.add_argument("--version", action="version", version=f"cocosearchd {service.version()}")
    parser.add_argument("--config", metavar="FILE", help="settings, instead of the user's config.yaml")
    parser.add_argument("--state-dir", metavar="DIR", help="where the database and the index live")
    parser.add_argument(
        "--set", metavar="SECTION.FIELD=VALUE", action="append", default=[], help="one setting, over all other layers"
    )
    return parser


def _environment(flags: argparse.Namespace) -> Mapping[str, str]:
    given = {"COCOSEARCH_CONFIG": flags.config, "COCOSEARCH_STATE_DIR": flags.state_dir}
    return {**address.environment(), **{name: value for name, value in given.items() if value}}


def _overrides(pairs: Sequence[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise BadSettings(f"--set {pair} has no value", "write --set section.field=value")
    return dict(pair.split("=", 1) for pair in pairs)


def _first_failure(group: BaseExceptionGroup[BaseException]) -> Failure | None:
    for error in group.exceptions:
        found = error if isinstance(error, Failure) else None
        if isinstance(error, BaseExceptionGroup):
            found = _first_failure(error)
        if found is not None:
            return found
    return None


def _end(failure: Failure) -> int:
    sys.stderr.write(f"error: {failure.message}{f' — hint: {failure.hint}' if failure.hint else ''}\n")
    if isinstance(failure, BadSettings):
        return EXIT_SETTINGS
    if isinstance(failure, Conflict) or failure.code == Conflict.code:
        return EXIT_RUNNING
    return EXIT_UNAVAILABLE if isinstance(failure, StoreUnavailable) else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
