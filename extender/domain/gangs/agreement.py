"""Make the one request of a gang from the requests of its members, or name everything in which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from extender.domain.gangs.readers import quoted
from extender.domain.jobs.job import JobRequest

SHARED = {
    "account": "account",
    "partition": "partition",
    "qos": "qos",
    "reservation": "reservation",
    "wckey": "wckey",
    "mcs_label": "mcs-label",
    "constraints": "constraints",
    "prefer": "prefer",
    "licenses": "licenses",
    "dependency": "dependency",
    "required_nodes": "required-nodes",
    "excluded_nodes": "excluded-nodes",
    "min_nodes": "min-nodes",
    "max_nodes": "max-nodes",
    "switches": "switches",
    "switches_wait_s": "switches",
    "segment": "segment",
    "on_node_failure": "on-node-failure",
    "layout": "gang-layout",
    "restart": "gang-restart",
    "exclusive": "exclusive",
    "run_as": "user-id",
    "working_dir": "current-working-dir",
    "time_limit_minutes": "time-limit",
    "priority": "priority",
    "nice": "nice",
    "begin": "begin",
    "deadline": "deadline",
    "mode": "mode",
    "comment": "comment",
}
"""What a job has once: field of the request, and the annotation that sets it."""

OF_NODES = (
    *("account", "partition", "qos", "reservation", "wckey", "mcs_label", "constraints", "licenses"),
    *("required_nodes", "excluded_nodes", "exclusive", "run_as", "tres_per_node"),
)
"""Settings that say on which nodes a job may be, and to whom it is charged. A Pod that takes over a slot has the same;
what else it says, such as a time limit, has no effect on the job that runs."""

MOST_NAMED = 20
"""Disagreements that are named; how many more there are is one sentence."""


@dataclass(frozen=True, slots=True)
class MemberRequest:
    """Hold the request of one member alone."""

    pod: str
    """`namespace/name`."""

    request: JobRequest


@dataclass(frozen=True, slots=True)
class Agreed:
    """Hold the request of the whole gang."""

    request: JobRequest
    notice: str = ""
    """Where members request different sizes: what Slurm sets aside for each."""


@dataclass(frozen=True, slots=True)
class Disagreed:
    """Name every setting in which members differ, or every fault of one, a sentence each."""

    faults: tuple[str, ...]


def agreed(title: str, members: Sequence[MemberRequest], size: int) -> Agreed | Disagreed:
    """Return the request for `size` members; those that do not exist yet ask the same.

    `title` names the job, unless a setting of the members does.

    Slurm gives every node of a job the same: where sizes differ the largest counts, resource by resource, and a notice
    says so. Raises `ValueError` for no members.
    """
    if not members:
        raise ValueError("a gang has at least one member")
    faults = _differences(members)
    if faults:
        return Disagreed(faults)
    requests = [one.request for one in members]
    first = requests[0]
    gres: dict[str, int] = {}
    for request in requests:
        for name, count in request.gres.items():
            gres[name] = max(gres.get(name, 0), count)
    least = [one.time_limit_least for one in requests if one.time_limit_least is not None]
    whole = any(one.whole_node for one in requests)
    request = replace(
        first,
        title=first.title if first.title != members[0].pod else title,
        members=max(size, len(members)),
        cpus=max(one.cpus for one in requests),
        memory_mb=0 if whole else max(one.memory_mb for one in requests),
        whole_node=whole,
        gres=gres,
        time_limit_least=max(least) if least else None,
    )
    return Agreed(request, _uneven(members, request))


def shared_settings(pod: str, request: JobRequest) -> str:
    """Return the settings that all members must have alike, as one text. `pod` is its `namespace/name`."""
    title = "" if request.title == pod else request.title
    return repr((title, *(getattr(request, field) for field in (*SHARED, "tres_per_node"))))


def misfit(job: JobRequest, pod: JobRequest) -> str:
    """Return why a Pod cannot take over a slot of a job with this request, as a sentence; "" if it can."""
    more = []
    if pod.cpus > job.cpus:
        more.append(f"{pod.cpus} CPUs instead of {job.cpus}")
    if pod.memory_mb > job.memory_mb and not job.whole_node:
        more.append(f"{pod.memory_mb} MiB of memory instead of {job.memory_mb}")
    more += [
        f"{count} {name} instead of {job.gres.get(name, 0)}"
        for name, count in sorted(pod.gres.items())
        if count > job.gres.get(name, 0)
    ]
    if more:
        return f"It requests {', '.join(more[:MOST_NAMED])}, which the job of its gang gives each member."
    if pod.whole_node and not job.whole_node:
        return "It requests nothing, so it gets a whole node; the job of its gang shares its nodes with others."
    for field in OF_NODES:
        was, now = getattr(job, field), getattr(pod, field)
        if was != now:
            setting = SHARED.get(field, "gres")
            return f"{setting}: the job of its gang has {_shown(was)}, and this Pod has {_shown(now)}."
    return ""


def _differences(members: Sequence[MemberRequest]) -> tuple[str, ...]:
    first, *others = members
    found = []
    own = next((one for one in others if (one.request.title == one.pod) != (first.request.title == first.pod)), None)
    named = next((one for one in others if first.request.title not in (first.pod, one.request.title)), own)
    if named is not None:
        found.append(f"job-name: {first.pod} and {named.pod} differ in it; the Pods of one job must agree")
    for field, setting in {**SHARED, "tres_per_node": "gres"}.items():
        was = getattr(first.request, field)
        other = next((one for one in others if getattr(one.request, field) != was), None)
        if other is not None:
            now = getattr(other.request, field)
            found.append(
                f"{setting}: {first.pod} has {_shown(was)} and {other.pod} has {_shown(now)}; "
                "the Pods of one job must agree"
            )
    if len(found) <= MOST_NAMED:
        return tuple(found)
    return (*found[:MOST_NAMED], f"{len(found) - MOST_NAMED} more settings differ; correct these first")


def _shown(value: object) -> str:
    return "nothing" if value in (None, "", ()) else quoted(str(value))


def _uneven(members: Sequence[MemberRequest], request: JobRequest) -> str:
    if request.whole_node:
        return ""
    smaller = next(
        (
            one.pod
            for one in members
            if (one.request.cpus, one.request.memory_mb, dict(one.request.gres))
            != (request.cpus, request.memory_mb, dict(request.gres))
        ),
        None,
    )
    if smaller is None:
        return ""
    given = ", ".join(
        [
            f"{request.cpus} CPUs",
            f"{request.memory_mb} MiB",
            *(f"{count} {name}" for name, count in sorted(request.gres.items())),
        ]
    )
    return f"{smaller} requests less than the largest member of its gang; Slurm allocates {given} to every member."
