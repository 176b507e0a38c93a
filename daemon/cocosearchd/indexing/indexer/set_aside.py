"""Contents that ended or stalled the indexer process: excluded across restarts, until they change.

They are rare, because the indexer process parses nothing. The file has content hashes and a digest of
the installed code: after an upgrade each content is tried again.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from cocosearchd.indexing.pipeline.file_reader import SourceFile

log = logging.getLogger(__name__)

FILE_NAME = "set_aside.json"
MAX_CONTENTS = 1000  # beyond that the oldest contents are tried again


class SetAside:
    """Reasons by content hash. All are in memory, because each file that is read is looked up."""

    def __init__(self, state_dir: Path, code: str) -> None:
        """Read the file of the state directory; blocking. `code` is an `installed_code_digest`."""
        self._path = state_dir / FILE_NAME
        self._code = code
        self._reasons = dict(_read(self._path, code))

    def reason(self, content_hash: bytes) -> str | None:
        """Return the reason why a content is excluded, or None."""
        return self._reasons.get(content_hash.hex())

    def reasons_by_path(self, sources: Iterable[SourceFile]) -> dict[str, str]:
        """Return path -> reason of the files that are excluded."""
        if not self._reasons:
            return {}
        return {
            source.path: reason
            for source in sources
            if (reason := self.reason(source.content_hash)) is not None
        }

    def add(self, content_hash: bytes, reason: str) -> None:
        """Exclude a content from now on; blocking.

        If the file cannot be written, this is logged, and the entry lasts until a restart.
        """
        self._reasons[content_hash.hex()] = reason
        while len(self._reasons) > MAX_CONTENTS:
            del self._reasons[next(iter(self._reasons))]
        part = self._path.with_suffix(".part")
        try:
            part.write_text(json.dumps({"code": self._code, "contents": self._reasons}))
            part.replace(self._path)
        except OSError as error:
            log.warning("set_aside_not_saved", extra={"path": str(self._path), "error": str(error)})


def _read(path: Path, code: str) -> Mapping[str, str]:
    try:
        stored = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning("set_aside_unreadable", extra={"path": str(path), "error": str(error)})
        return {}
    contents = (
        stored.get("contents") if isinstance(stored, dict) and stored.get("code") == code else None
    )
    if not isinstance(contents, dict):
        return {}
    return {str(key): str(reason) for key, reason in contents.items()}
