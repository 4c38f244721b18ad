"""Describe the end of a placeholder job, for the accounting of Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from extender.domain.views import PodView

_HIGHEST_CODE = 255
_HIGHEST_SIGNAL = 64


@dataclass(frozen=True, slots=True)
class WorkloadEnd:
    """Hold the end of the Pods of a job that was just ended.

    `name` is that of the job: slurmctld gives ids out again after it lost its state. `wait_status` is as of wait(2).
    """

    job_id: int
    name: str
    wait_status: int
    note: str


def wait_status_of(pods: Sequence[PodView]) -> int | None:
    """Return the worst end of these Pods as a wait status; `None` unless all of them ended by themselves.

    The exit code is in the high byte, the signal, where the container runtime reports one, in the low seven bits.
    """
    if not pods or not all(pod.finished for pod in pods):
        return None
    return max(_wait_status(pod) for pod in pods)


def _wait_status(pod: PodView) -> int:
    failure = pod.failure
    if failure is None:
        return (pod.phase == "Failed") << 8
    if 0 < failure.signal <= _HIGHEST_SIGNAL:
        return failure.signal
    return (failure.exit_code if 0 < failure.exit_code <= _HIGHEST_CODE else _HIGHEST_CODE) << 8
