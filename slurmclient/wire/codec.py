"""What a version does its own way: the base of all codecs, with the habits of the newest one.

A codec of a version overrides what its schema does differently from the next newer one, and says which break that is.
"""

from __future__ import annotations

from typing import ClassVar

from slurmclient.errors import InvalidRequestError, UnsupportedError
from slurmclient.models.controller import ControllerPing
from slurmclient.models.description import JobDescription, Shared
from slurmclient.models.job import Job, NodeAllocation
from slurmclient.models.partition import Partition
from slurmclient.wire import controller, description, job, partition
from slurmclient.wire.fields import Raw
from slurmclient.wire.partition import Sharing


class Codec:
    """Reads and writes the JSON of one API version."""

    version: ClassVar[int]
    switches_key: ClassVar[str] = "required_switches"
    external_jobs: ClassVar[bool] = True
    shared_modes: ClassVar[frozenset[Shared]] = frozenset(Shared)

    @property
    def label(self) -> str:
        """The version as paths have it."""
        return f"v0.0.{self.version}"

    def write_job(self, wishes: JobDescription) -> dict[str, object]:
        """Write the description of a job that is to be made.

        Raises:
            UnsupportedError: the version has no words for a wish.
        """
        return description.write_description(wishes) | self._own(wishes)

    def write_changes(self, wishes: JobDescription) -> dict[str, object]:
        """Write the changes to a job.

        Raises:
            InvalidRequestError: nothing to change, or something that cannot be changed.
            UnsupportedError: the version has no words for a wish.
        """
        if wishes.external is not None:
            raise InvalidRequestError("job update: a job cannot become external, or stop being it")
        changes = description.write_changes(wishes) | self._own(wishes)
        if not changes:
            raise InvalidRequestError("job update: nothing to change")
        return changes

    def read_job(self, raw: Raw) -> Job:
        """Read one job record; see ``wire.job.read_job``."""
        return job.read_job(raw, self.read_allocations(raw), self.read_shared(raw), self.switches_key)

    def read_allocations(self, raw: Raw) -> tuple[NodeAllocation, ...]:
        """Read what a job holds on each node."""
        return job.read_allocations(raw)

    def read_shared(self, raw: Raw) -> Shared | None:
        """Read how a job shares its nodes."""
        return job.read_shared(raw)

    def read_partition(self, raw: Raw) -> Partition:
        """Read one partition record; see ``wire.partition.read_partition``."""
        return partition.read_partition(raw, self.read_sharing(raw))

    def read_sharing(self, raw: Raw) -> Sharing:
        """Read how a partition shares its nodes."""
        return partition.read_sharing(raw)

    def read_controller(self, raw: Raw) -> ControllerPing:
        """Read one entry of a ping."""
        return controller.read_controller(raw)

    def _own(self, wishes: JobDescription) -> dict[str, object]:
        body: dict[str, object] = {}
        if wishes.external:
            if not self.external_jobs:
                # Sent all the same, the flag would be refused as an unknown value (9207).
                raise UnsupportedError(f"{self.label} has no external jobs; they need v0.0.43 (Slurm 25.05)")
            body["flags"] = ["EXTERNAL_JOB"]
        if wishes.shared is not None and wishes.shared not in self.shared_modes:
            raise UnsupportedError(f"{self.label} has no shared={wishes.shared.value}; it needs v0.0.41 (Slurm 24.05)")
        return body
