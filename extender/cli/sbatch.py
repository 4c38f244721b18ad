"""Write the request for a job as the `sbatch` line that a user of Slurm would write."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from extender.domain.jobs.job import Exclusive, JobRequest, OnNodeFailure
from extender.slurm.describe import tres_per_node

_OPTIONS = {
    "account": "account",
    "partition": "partition",
    "qos": "qos",
    "reservation": "reservation",
    "wckey": "wckey",
    "comment": "comment",
    "constraints": "constraint",
    "prefer": "prefer",
    "licenses": "licenses",
    "dependency": "dependency",
    "mcs_label": "mcs-label",
    "working_dir": "chdir",
    "time_limit_minutes": "time",
    "priority": "priority",
    "nice": "nice",
    "switches": "switches",
    "segment": "segment",
}
"""Fields that an option of `sbatch` takes as they are."""

_SHARING = {
    Exclusive.NONE: "--exclusive",
    Exclusive.OK: "--oversubscribe",
    Exclusive.USER: "--exclusive=user",
    Exclusive.MCS: "--exclusive=mcs",
    Exclusive.TOPO: "--exclusive=topo",
}

_GIB = 1024


def sbatch_line(request: JobRequest) -> str:
    """Return the options of `sbatch` that ask for the same. The mode of the job has none."""
    return " ".join(["sbatch", *(shlex.quote(option) for option in _options(request))])


def _options(request: JobRequest) -> Iterator[str]:
    yield f"--job-name={request.title}"
    nodes = max(request.members, request.min_nodes or 0)
    most = max(nodes, request.max_nodes or 0)
    yield f"--nodes={nodes}" if most == nodes else f"--nodes={nodes}-{most}"
    yield f"--ntasks={nodes}"
    yield f"--cpus-per-task={request.cpus}"
    memory = request.memory_mb
    yield f"--mem={memory // _GIB}G" if memory and memory % _GIB == 0 else f"--mem={memory}M"
    if devices := tres_per_node(request):
        yield f"--gres={','.join(one.removeprefix('gres/').removeprefix('gres:') for one in devices.split(','))}"
    for field, option in _OPTIONS.items():
        value = getattr(request, field)
        if value is not None and value != "":
            yield f"--{option}={value}"
    if request.required_nodes:
        yield f"--nodelist={','.join(request.required_nodes)}"
    if request.excluded_nodes:
        yield f"--exclude={','.join(request.excluded_nodes)}"
    sharing = Exclusive.NONE if request.whole_node else request.exclusive
    if sharing is not None:
        yield _SHARING[sharing]
    if request.on_node_failure is OnNodeFailure.KEEP:
        yield "--no-kill"
    if request.run_as is not None:
        yield f"--uid={request.run_as.uid}"
        yield f"--gid={request.run_as.gid}"
    if request.begin is not None:
        yield f"--begin={_instant(request.begin)}"
    if request.deadline is not None:
        yield f"--deadline={_instant(request.deadline)}"


def _instant(value: int | str) -> str:
    """Write seconds since the epoch in the one form of Slurm's times that names no time zone."""
    return value if isinstance(value, str) else f"uts{value}"
