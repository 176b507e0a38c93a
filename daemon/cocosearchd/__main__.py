"""`cocosearchd`: flags → settings → `service.run` → exit code.

The daemon's modules take most of a second of CPU to load. Settings are therefore read first: a
question about settings, or a daemon with bad settings, loads few modules.

Exit codes: 0 stopped, 69 PostgreSQL cannot be used, 75 already running, 78 bad settings, 1 anything
else (sysexits.h).
"""

import argparse
import faulthandler
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from cocosearch_ipc import address
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.render import output
from cocosearchd.config.index_settings import list_values, project_settings
from cocosearchd.config.layers import load_settings
from cocosearchd.config.settings import LoadedSettings
from cocosearchd.errors import BadSettings, Conflict, StoreUnavailable
from cocosearchd.runtime.masking import mask_urls

LEAVE_S = 5.0
EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_RUNNING, EXIT_SETTINGS = 1, 69, 75, 78


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon in the foreground; return the exit code of the process."""
    flags = _parser().parse_args(arguments)
    if flags.version:
        return _print_version()
    env = _environment(flags)

    def read() -> LoadedSettings:
        return load_settings(Path(address.config_file(env)), env, _overrides(flags.set))

    try:
        if flags.check or flags.show_settings:
            return _print_json(flags, env, read)
        _serve(read(), env, read)
    except Failure as failure:
        return _end(failure)
    except OSError as error:
        hint = (
            "set COCOSEARCH_STATE_DIR and COCOSEARCH_RUNTIME_DIR to directories that can be written"
        )
        return _end(Failure(f"{error.filename or 'a file'}: {error.strerror or error}", hint))
    except BaseExceptionGroup as group:
        first = _first_failure(group)
        if first is None:
            raise
        return _end(first)
    return 0


def _serve(
    loaded: LoadedSettings, env: Mapping[str, str], read: Callable[[], LoadedSettings]
) -> None:
    """Load the daemon and serve; then end the process, even if threads hang in a file server.

    Python cannot end such a thread.
    """
    import anyio

    from cocosearchd import service
    from cocosearchd.runtime import interpreter, logs, process_resources

    interpreter.configure_interpreter()
    process_resources.raise_file_limit()
    # a crash, and a watchdog's SIGABRT, write all stacks without the interpreter
    faulthandler.enable()
    environment = service.DaemonEnvironment.from_environment(
        env, loaded.settings, os.getpid(), read
    )
    secrets = service.secrets_in(loaded.settings, environment)
    log = loaded.settings.log
    logs.configure(log.level, log.format, Path(address.log_file(env)), secrets=secrets)

    async def run() -> None:
        await service.run(loaded, environment)
        exit_timer = threading.Timer(LEAVE_S, os._exit, (0,))
        exit_timer.daemon = True
        exit_timer.start()

    anyio.run(run, backend_options={"use_uvloop": True})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cocosearchd",
        allow_abbrev=False,  # a daemon would take `--st` for `--state-dir`, and create the directory
        description="The code-search daemon, in the foreground. `cocosearchctl up DIRECTORY` starts it for you.",
        epilog="Exit codes: 0 stopped, 69 no PostgreSQL, 75 already running, 78 bad settings, 1 anything else.",
    )
    parser.add_argument(
        "--version", action="store_true", help="show program's version number and exit"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="settings, instead of the user's config.yaml"
    )
    parser.add_argument("--state-dir", metavar="DIR", help="where the database and the index live")
    parser.add_argument(
        "--set",
        metavar="SECTION.FIELD=VALUE",
        action="append",
        default=[],
        help="one setting, over all other layers",
    )
    parser.add_argument(
        "--show-settings",
        action="store_true",
        help="print the settings as JSON, with their origins",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="print as JSON whether database and embedder can be used",
    )
    parser.add_argument(
        "--project",
        metavar="DIR",
        default="/",
        help="the project whose files of settings count for the two options above",
    )
    return parser


def _print_version() -> int:
    import importlib.metadata

    sys.stdout.write(f"cocosearchd {importlib.metadata.version('cocosearchd')}\n")
    return 0


def _print_json(
    flags: argparse.Namespace, env: Mapping[str, str], read: Callable[[], LoadedSettings]
) -> int:
    """Print findings or settings as JSON. Raises `BadSettings` if settings cannot be shown."""
    if flags.check:
        answer: dict[str, object] = {"findings": _findings(read, env, flags.project)}
    else:
        settings = project_settings(read(), flags.project)
        fields = ("key", "value", "layer", "place")
        values = [dict(zip(fields, value, strict=True)) for value in list_values(settings)]
        answer = {"values": values, "index": None, "notes": settings.warnings}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _findings(
    read: Callable[[], LoadedSettings], env: Mapping[str, str], project: str
) -> list[dict[str, str]]:
    import anyio

    from cocosearchd.api import settings_check

    async def check() -> list[dict[str, str]]:
        findings = settings_check.check_settings(read, env, project)
        return [asdict(finding) async for finding in findings]

    return anyio.run(check)


def _environment(flags: argparse.Namespace) -> Mapping[str, str]:
    options = {"COCOSEARCH_CONFIG": flags.config, "COCOSEARCH_STATE_DIR": flags.state_dir}
    return {**address.environment(), **{name: value for name, value in options.items() if value}}


def _overrides(pairs: Sequence[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise BadSettings(f"--set {pair} has no value", "write --set section.field=value")
    return dict(pair.split("=", 1) for pair in pairs)


def _first_failure(group: BaseExceptionGroup[BaseException]) -> Failure | None:
    for error in group.exceptions:
        failure = error if isinstance(error, Failure) else None
        if isinstance(error, BaseExceptionGroup):
            failure = _first_failure(error)
        if failure is not None:
            return failure
    return None


def _end(failure: Failure) -> int:
    # one line: `up` reads it from the log
    output.error(mask_urls(failure.message), failure.hint)
    if isinstance(failure, BadSettings):
        return EXIT_SETTINGS
    if isinstance(failure, Conflict) or failure.code == Conflict.code:
        return EXIT_RUNNING
    return EXIT_UNAVAILABLE if isinstance(failure, StoreUnavailable) else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
