"""The followed indexes of all schemas that the settings name, beside the daemon's own."""

import logging
from collections.abc import Sequence

from anyio.abc import TaskGroup

from cocosearchd.indexes.following.followed_schema import FollowedSchema, FollowingParts
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.runtime.supervise import supervise

log = logging.getLogger(__name__)


class FollowedIndexes:
    """Follows schemas; `by_name` has their indexes. Other classes only read it."""

    def __init__(self, schemas: Sequence[str], parts: FollowingParts) -> None:
        self.by_name: dict[str, RunningIndex] = {}
        self._schemas = [
            FollowedSchema(schema, parts, self.by_name) for schema in dict.fromkeys(schemas)
        ]

    def start(self, tasks: TaskGroup) -> None:
        """Follow each schema in a supervised task."""
        for schema in self._schemas:
            tasks.start_soon(supervise, f"following of {schema.schema}", schema.run)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about schemas that cannot be followed now."""
        return tuple(warning for schema in self._schemas for warning in schema.warnings)
