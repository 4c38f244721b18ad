"""The base of all codecs, with the schema of the newest API version.

The codec of a version overrides only the differences of its schema from the next newer one, and names them.

To add a version: give this class its schema, let the codec of the version that was newest before inherit from it in a
file `v00NN.py`, and add both to `CODECS` (`wire/__init__.py`) and `API_VERSIONS` (`slurmclient/capabilities.py`).
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

SEGMENTS_SINCE = 41
"""The first version whose jobs have a `segment_size`."""


class Codec:
    """Read and write the JSON of one API version."""

    version: ClassVar[int]
    switches_key: ClassVar[str] = "required_switches"
    external_jobs: ClassVar[bool] = True
    shared_modes: ClassVar[frozenset[Shared]] = frozenset(Shared)

    @property
    def label(self) -> str:
        """Return the version in the form used in paths."""
        return f"v0.0.{self.version}"

    def write_job(self, job_description: JobDescription) -> dict[str, object]:
        """Write the description of a new job.

        Raises:
            UnsupportedError: the version has no field for a setting.
        """
        return description.write_description(job_description) | self._own(job_description)

    def write_changes(self, job_description: JobDescription) -> dict[str, object]:
        """Write the changes to a job.

        Raises:
            InvalidRequestError: nothing to change, or something that cannot be changed.
            UnsupportedError: the version has no field for a setting.
        """
        if job_description.external is not None:
            raise InvalidRequestError("job update: a job cannot become external, or stop being it")
        changes = description.write_changes(job_description) | self._own(job_description)
        if not changes:
            raise InvalidRequestError("job update: nothing to change")
        return changes

    def read_job(self, raw: Raw) -> Job:
        """Read one job record; see `wire.job.read_job`."""
        return job.read_job(raw, self.read_allocations(raw), self.read_shared(raw), self.switches_key)

    def read_allocations(self, raw: Raw) -> tuple[NodeAllocation, ...]:
        """Read the resources of a job on each node."""
        return job.read_allocations(raw)

    def read_shared(self, raw: Raw) -> Shared | None:
        """Read the way in which a job shares its nodes."""
        return job.read_shared(raw)

    def read_partition(self, raw: Raw) -> Partition:
        """Read one partition record; see `wire.partition.read_partition`."""
        return partition.read_partition(raw, self.read_sharing(raw))

    def read_sharing(self, raw: Raw) -> Sharing:
        """Read the way in which a partition shares its nodes."""
        return partition.read_sharing(raw)

    def read_controller(self, raw: Raw) -> ControllerPing:
        """Read one entry of a ping."""
        return controller.read_controller(raw)

    def _own(self, job_description: JobDescription) -> dict[str, object]:
        body: dict[str, object] = {}
        if job_description.external:
            if not self.external_jobs:
                # If it were sent anyway, the flag would be refused as an unknown value (9207).
                raise UnsupportedError(f"{self.label} has no external jobs; they need v0.0.43 (Slurm 25.05)")
            body["flags"] = ["EXTERNAL_JOB"]
        if job_description.segment_size is not None and self.version < SEGMENTS_SINCE:
            raise UnsupportedError(f"{self.label} has no segments; they need v0.0.{SEGMENTS_SINCE} (Slurm 24.11)")
        if job_description.shared is not None and job_description.shared not in self.shared_modes:
            raise UnsupportedError(
                f"{self.label} has no shared={job_description.shared.value}; it needs v0.0.41 (Slurm 24.05)"
            )
        return body
