"""Count the CPUs and GPUs that Pods wait for, and the GPUs that Slurm has allocated to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from extender.domain.jobs.devices import without_cores
from extender.domain.jobs.job import JobRequest
from extender.domain.placeholder import Placeholder, State
from extender.domain.placing.room import CPUS, of_job
from extender.observability.metrics.slurm_labels import SlurmLabels

GPU = "gpu"

PENDING = frozenset({State.ABSENT, State.SUBMITTING, State.UNSURE, State.WAITING})
"""Waiting for an allocation. A refused workload waits for its author, not for resources, and is not counted."""

ALLOCATED = frozenset({State.GRANTED, State.BOUND})

Counts = Counter[tuple[str, ...]]


@dataclass(slots=True)
class Demand:
    """Sums by the values of the labels: GPU type where there are GPUs, and partition where the site wants it."""

    pending_cpus: Counts = field(default_factory=Counter)
    pending_gpus: Counts = field(default_factory=Counter)
    allocated_gpus: Counts = field(default_factory=Counter)


def demand_of(placeholders: Iterable[Placeholder], labels: SlurmLabels) -> Demand:
    """Return the sums over all placeholders."""
    demand = Demand()
    if not labels.by_partition:
        demand.pending_cpus[()] = 0  # a sum without labels is shown from the start
    for p in placeholders:
        if p.request is not None and p.state in PENDING:
            requested = of_job(p.request)
            demand.pending_cpus[labels.values(p.request)] += requested[CPUS] * p.request.members
            for kind, count in _gpus(requested):
                demand.pending_gpus[labels.values(p.request, labels.gpu_type(kind))] += count * p.request.members
        elif p.state in ALLOCATED:
            request = p.submitted_request or p.request
            for kind, count in _allocated(p, request):
                demand.allocated_gpus[labels.values(request, labels.gpu_type(kind))] += count
    return demand


def _gpus(amounts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for full, count in amounts.items():
        name, _, kind = full.partition(":")
        if name == GPU:
            yield kind, count


def _allocated(p: Placeholder, request: JobRequest | None) -> Iterator[tuple[str, int]]:
    """Return the devices that Slurm gave; where it does not say which, those that were requested."""
    given = [one for _, devices in p.job.devices for one in without_cores(devices)] if p.job is not None else []
    if given:
        yield from ((one.type, one.count) for one in given if one.name == GPU)
    elif request is not None:
        yield from ((kind, count * request.members) for kind, count in _gpus(of_job(request)))
