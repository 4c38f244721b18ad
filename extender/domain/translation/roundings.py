"""Name what a Pod's request becomes in Slurm's units where the two differ."""

from __future__ import annotations

from extender.domain.jobs.job import JobRequest
from extender.domain.pods.requests import CPU, MEMORY, pod_requests
from extender.domain.quantity import ONE
from extender.domain.views import PodView

_MEBI = 2**20 * ONE
_MILLI = ONE // 1000
_UNITS = (("Gi", 2**30 * ONE), ("Mi", _MEBI), ("Ki", 2**10 * ONE))
_DECIMAL_UNITS = (("G", 10**9 * ONE), ("M", 10**6 * ONE), ("k", 10**3 * ONE))


def roundings(pod: PodView, request: JobRequest, job_deadline_s: int | None = None) -> tuple[str, ...]:
    """Return what was rounded, from what to what: `CPU 100m to 1`. Amounts that annotations decide are left out."""
    try:
        requests = pod_requests(pod)
    except ValueError:
        return ()
    found = []
    cpu, memory = requests.get(CPU, 0), requests.get(MEMORY, 0)
    if 0 < request.cpus * ONE - cpu < ONE:
        found.append(f"CPU {_cpu(cpu)} to {request.cpus}")
    if 0 < request.memory_mb * _MEBI - memory < _MEBI:
        found.append(f"memory {_memory(memory)} to {request.memory_mb} MiB")
    limit, least = request.time_limit_minutes, request.time_limit_least
    if limit is not None and least is not None:
        own = limit != least and pod.active_deadline_s is not None
        deadline = pod.active_deadline_s if own or job_deadline_s is None else job_deadline_s
        if deadline is not None and limit * 60 != deadline:
            room = " (start and grace included)" if own else ""
            found.append(f"activeDeadlineSeconds {deadline} to a time limit of {limit} min{room}")
    return tuple(found)


def _cpu(size: int) -> str:
    return f"{size // _MILLI}m" if size % _MILLI == 0 else f"{size}n"


def _memory(size: int) -> str:
    for unit, worth in (*_UNITS, *_DECIMAL_UNITS):
        if size >= worth and size % worth == 0:
            return f"{size // worth}{unit}"
    return f"{-(-size // ONE)} bytes"
