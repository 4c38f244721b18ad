"""CPUs and GPUs that are waited for and allocated, by type and by partition."""

from __future__ import annotations

from dataclasses import replace

from extender.domain.cluster import SlurmNode, SlurmPartition, SlurmSnapshot
from extender.domain.jobs.devices import Device
from extender.domain.jobs.job import JobRequest
from extender.domain.placeholder import Placeholder, State
from extender.domain.states import PlaceholderJob
from extender.observability.metrics.demand import demand_of
from extender.observability.metrics.slurm_labels import MOST_VALUES, OTHER, UNKNOWN, SlurmLabels
from tests.builders.placeholders import in_state

REQUESTED = JobRequest("team/pod", cpus=4, memory_mb=1024, gres={"gpu:h100": 2, "gpu": 1, "shard": 8})
NODE = SlurmNode("s1", gres={"gpu:h100": 8, "gpu:a100": 4})
OFF = SlurmLabels(lambda: SlurmSnapshot(nodes={"s1": NODE}, known=True))


def known(*names: str, default: str = "") -> SlurmSnapshot:
    partitions = {name: SlurmPartition(name, default=name == default) for name in names}
    return SlurmSnapshot(nodes={"s1": NODE}, partitions=partitions, known=True)


def by_partition(*names: str, default: str = "") -> SlurmLabels:
    return SlurmLabels(lambda: known(*names, default=default), by_partition=True)


def placed(state: State, request: JobRequest | None = REQUESTED) -> Placeholder:
    return replace(in_state(state, f"{state}"), request=request)


def test_what_pods_wait_for_is_added_up_and_refused_pods_wait_for_nothing() -> None:
    waiting = [placed(state) for state in (State.ABSENT, State.SUBMITTING, State.UNSURE, State.WAITING)]
    demand = demand_of([*waiting, placed(State.REFUSED), placed(State.GONE), placed(State.WAITING, None)], OFF)
    assert demand.pending_cpus == {(): 16}
    assert demand.pending_gpus == {("h100",): 8, ("untyped",): 4}
    assert demand.allocated_gpus == {}


def test_a_gang_waits_for_what_all_its_members_request() -> None:
    demand = demand_of([placed(State.WAITING, replace(REQUESTED, members=3))], OFF)
    assert (demand.pending_cpus[()], demand.pending_gpus["h100",]) == (12, 6)


def test_gres_that_the_user_wrote_replace_the_counted_ones() -> None:
    demand = demand_of([placed(State.WAITING, replace(REQUESTED, tres_per_node="gres/gpu:a100:2"))], OFF)
    assert demand.pending_gpus == {("a100",): 2}


def test_allocated_gpus_are_those_that_slurm_names_else_those_requested() -> None:
    devices = (("s1", (Device("gpu", "a100", 3, "0-2"), Device("shard", "", 1))),)
    named = replace(in_state(State.BOUND, "named", PlaceholderJob(7, devices=devices)), request=REQUESTED)
    demand = demand_of([named, placed(State.GRANTED), placed(State.LOST)], OFF)
    assert demand.allocated_gpus == {("a100",): 3, ("h100",): 2, ("untyped",): 1}
    assert demand.pending_cpus == {(): 0}


def test_a_partition_is_a_label_where_the_site_wants_it() -> None:
    label = by_partition("gpu", "batch", default="batch")
    pods = [placed(State.WAITING, replace(REQUESTED, partition=name)) for name in ("gpu", "", "gpu,batch", "invented")]
    demand = demand_of(pods, label)
    assert demand.pending_cpus == {("gpu",): 4, ("batch",): 4, (OTHER,): 8}
    assert demand.pending_gpus["h100", "gpu"] == 2


def test_the_number_of_partitions_that_are_labels_is_bounded() -> None:
    names = [f"p{number}" for number in range(MOST_VALUES + 5)]
    label = by_partition(*names)
    values = {label.values(replace(REQUESTED, partition=name)) for name in names}
    assert len(values) == MOST_VALUES + 1
    assert (OTHER,) in values
    assert label.values(replace(REQUESTED, partition=names[0])) == (names[0],)


def test_a_partition_is_unknown_before_slurm_was_read() -> None:
    assert SlurmLabels(by_partition=True).values(REQUESTED) == (UNKNOWN,)
    assert SlurmLabels(by_partition=True).values(None, "x") == ("x", UNKNOWN)


def test_a_type_of_gpus_that_no_node_has_is_no_value_of_a_label() -> None:
    invented = [placed(State.WAITING, replace(REQUESTED, gres={f"gpu:invented-{number}": 1})) for number in range(9)]
    assert demand_of(invented, OFF).pending_gpus == {(OTHER,): 9}
