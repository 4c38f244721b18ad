"""Computes the size of each member of a job: CPUs, memory and GRES, in Slurm's units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.domain.pods.requests import CPU, MEMORY, pod_requests
from extender.domain.policy.site import (
    MissingRequests,
    MissingSize,
    TranslationPolicy,
    UnderAccounting,
    UnknownResources,
)
from extender.domain.quantity import cpus_up, mebibytes_up
from extender.domain.translation import annotation_table as table
from extender.domain.translation.annotation_reader import Chosen
from extender.domain.translation.gres import GPU, by_name, gpu_type, requested_gres, to_gres, with_type
from extender.domain.translation.notice import Notice
from extender.domain.views import PodView, ResourceClaimGres
from extender.domain.wellknown import OWN_PREFIX, Reason

NO_REQUESTS = "requests no CPU or no memory (jobs.missingRequests is whole-node)"


@dataclass(frozen=True, slots=True)
class Size:
    """Size of one member. Not to be used where there are `faults`."""

    cpus: int = 0
    memory_mb: int = 0
    whole_node: bool = False
    """The job needs a node for itself: a resource is not requested, and the site gives whole nodes then."""

    gres: Mapping[str, int] = field(default_factory=dict)
    licenses: Mapping[str, int] = field(default_factory=dict)
    """For all members together: a licence is on no node."""

    faults: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()


def size_of(pods: Sequence[PodView], chosen: Chosen, policy: TranslationPolicy, *, may_be_whole: bool = True) -> Size:
    """Return the size of the largest member, resource by resource: Slurm gives every node of a job the same.

    `may_be_whole`: the author of the Pods and the policy of the site do not forbid a node for this job alone.
    """
    sizes = [_size_of_one(pod, chosen, policy, may_be_whole) for pod in pods]
    whole = any(size.whole_node for size in sizes)
    types = {gpu_type(pod, policy).name for pod in pods}
    requested_type = chosen.get(table.GPU_TYPE) or (types.pop() if len(types) == 1 else "")
    gres = _largest(size.gres for size in sizes)
    faults = [fault for size in sizes for fault in size.faults]
    notices = [notice for size in sizes for notice in size.notices]
    if GPU in gres:
        if not chosen.get(table.GPU_TYPE):
            notices += [notice for pod in pods for notice in gpu_type(pod, policy).notices]
    elif chosen.get(table.GPU_TYPE):
        sentence = f"{chosen.says(table.GPU_TYPE)} has no effect: the Pod requests no GPU without a type"
        notices.append(Notice(Reason.SETTING_WITHOUT_EFFECT, sentence))
    if chosen.get(table.GRES):
        faults += _too_few(chosen, gres)
        if policy.under_accounting is UnderAccounting.REFUSE:
            faults += [
                f"{sentence}; it must name as many (jobs.underAccounting is refuse)"
                for sentence in _others(chosen, gres)
            ]
        else:
            end = "Slurm accounts for none of them"
            notices += [
                Notice(Reason.NOT_ACCOUNTED_BY_SLURM, f"{sentence}; {end}") for sentence in _others(chosen, gres)
            ]
    return Size(
        max(size.cpus for size in sizes),
        0 if whole else max(size.memory_mb for size in sizes),
        whole,
        with_type(gres, requested_type),
        _summed(size.licenses for size in sizes),
        tuple(faults),
        tuple(notices),
    )


def _size_of_one(pod: PodView, chosen: Chosen, policy: TranslationPolicy, may_be_whole: bool) -> Size:
    try:
        requests = pod_requests(pod)
    except ValueError as why:
        return Size(faults=(f"Pod {pod.full_name}: {why}",))
    faults: list[str] = []
    notices: list[Notice] = []
    cpus, memory_mb = cpus_up(requests.get(CPU, 0)), mebibytes_up(requests.get(MEMORY, 0))
    refuses = policy.under_accounting is UnderAccounting.REFUSE
    for setting, requested, unit in (
        (table.CPUS, cpus, "CPUs"),
        (table.MEMORY, memory_mb, "MiB"),
    ):
        value = chosen.get(setting)
        if value is not None and value < requested:
            sentence = f"{chosen.says(setting)} is less than the {requested} {unit} that the Pod requests"
            if refuses:
                faults.append(f"{sentence}; it must be at least that much (jobs.underAccounting is refuse)")
            else:
                notices.append(
                    Notice(Reason.NOT_ACCOUNTED_BY_SLURM, f"{sentence}; Slurm accounts for less than Kubernetes does")
                )
    cpus, memory_mb = chosen.get(table.CPUS) or cpus, chosen.get(table.MEMORY) or memory_mb
    missing = policy.missing_requests
    whole = missing is MissingRequests.WHOLE_NODE and may_be_whole and (cpus <= 0 or memory_mb <= 0)
    if whole:
        cpus, memory_mb = max(1, cpus), 0
        notices.append(Notice(Reason.WHOLE_NODE, f"Pod {pod.full_name} {NO_REQUESTS}; its job gets a whole node"))
    elif isinstance(missing, MissingSize):
        cpus, memory_mb = cpus or missing.cpus, memory_mb or missing.memory_mb
    if not whole:
        faults += _missing(pod, cpus, memory_mb)
    reading = to_gres(requests, policy)
    if not chosen.get(table.GRES):  # what an unmapped resource is in Slurm, the author has said
        faults += reading.faults
        if policy.unknown_resources is UnknownResources.REFUSE:
            known = ", ".join(rule.resource for rule in policy.gres_rules) or "nothing"
            faults += [
                f"{sentence}, and jobs.unknownResources is refuse; the map names {known}"
                for sentence in reading.unknown
            ]
        else:
            end = "Slurm does not count it, only the kubelet grants it"
            notices += [Notice(Reason.NOT_ACCOUNTED_BY_SLURM, f"{sentence}; {end}") for sentence in reading.unknown]
    resource_claim_gres = pod.resource_claim_gres or ResourceClaimGres()
    faults += resource_claim_gres.faults
    notices += [
        Notice(Reason.NOT_ACCOUNTED_BY_SLURM, f"{sentence}; kube-scheduler allocates it, and Slurm does not count it")
        for sentence in resource_claim_gres.delegated
    ]
    gres = _summed((reading.gres, resource_claim_gres.gres))
    return Size(cpus, memory_mb, whole, gres, reading.licenses, tuple(faults), (*notices, *reading.notices))


def _missing(pod: PodView, cpus: int, memory_mb: int) -> list[str]:
    return [
        f"Pod {pod.full_name} requests no {resource}; resources.requests.{resource} of its containers together "
        f"must be above 0, or {OWN_PREFIX}{setting.name} must set the amount"
        for resource, size, setting in (
            (CPU, cpus, table.CPUS),
            (MEMORY, memory_mb, table.MEMORY),
        )
        if size <= 0
    ]


def _too_few(chosen: Chosen, needed: Mapping[str, int]) -> list[str]:
    """Return faults where the author's GRES are fewer than the devices of the same name that kubelet will hand out."""
    requested = by_name(requested_gres(chosen.get(table.GRES) or ""))
    return [
        f"{chosen.says(table.GRES)} requests {requested[name]} {name}, but the Pod's resources request {count}; "
        "it must be at least as many"
        for name, count in by_name(needed).items()
        if name in requested and requested[name] < count
    ]


def _others(chosen: Chosen, needed: Mapping[str, int]) -> list[str]:
    """Return sentences about devices that kubelet will hand out and that the author's GRES do not name."""
    requested = by_name(requested_gres(chosen.get(table.GRES) or ""))
    return [
        f"{chosen.says(table.GRES)} names no {name}, but the Pod's resources request {count}"
        for name, count in by_name(needed).items()
        if name not in requested
    ]


def _largest(maps: Iterable[Mapping[str, int]]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for one in maps:
        for name, count in one.items():
            largest[name] = max(largest.get(name, 0), count)
    return largest


def _summed(maps: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in maps:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total
