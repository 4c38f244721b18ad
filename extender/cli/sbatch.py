"""Write the request for a job as the `sbatch` line that a user of Slurm would write."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from extender.domain.jobs.job import Exclusive, JobRequest, OnNodeFailure
from extender.slurm.describe import memory_per_cpu, tres_per_node

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
    yield from _size(request)
    for field, option in _OPTIONS.items():
        value = getattr(request, field)
        if value is not None and value != "":
            yield f"--{option}={value}"
    if request.switches is not None:
        wait = request.switches_wait_s
        yield f"--switches={request.switches}" + ("" if wait is None else f"@{wait // 60}:{wait % 60:02d}")
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


def _size(request: JobRequest) -> Iterator[str]:
    nodes, devices = request.fewest_nodes, tres_per_node(request)
    if request.packed:
        if request.max_nodes or nodes > 1:
            yield f"--nodes={nodes}-{request.max_nodes}" if request.max_nodes else f"--nodes={nodes}"
        yield f"--ntasks={request.members}"
        yield f"--cpus-per-task={request.cpus}"
        yield f"--mem-per-cpu={_mebibytes(memory_per_cpu(request))}"
        if devices:
            yield f"--tres-per-task={devices}"
        return
    most = max(nodes, request.max_nodes or 0)
    yield f"--nodes={nodes}" if most == nodes else f"--nodes={nodes}-{most}"
    yield f"--ntasks={nodes}"
    yield f"--cpus-per-task={request.cpus}"
    yield f"--mem={_mebibytes(request.memory_mb)}"
    if devices:
        yield f"--gres={','.join(one.removeprefix('gres/').removeprefix('gres:') for one in devices.split(','))}"


def _mebibytes(amount: int) -> str:
    return f"{amount // _GIB}G" if amount and amount % _GIB == 0 else f"{amount}M"


def _instant(value: int | str) -> str:
    """Write seconds since the epoch in the one form of Slurm's times that names no time zone."""
    return value if isinstance(value, str) else f"uts{value}"
