"""Two hundred gangs on 32 nodes beside native jobs: each is bound at one moment, and nothing is left at the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import pytest

from extender.domain.wellknown import GANG, GANG_NODES, GANG_RANK, GANG_SIZE, STATUS_PREFIX
from lab.build_slurm import RELEASES
from lab.pods import RUN_FOR
from lab.site import PodRef, Site
from lab.slurm_conf import Partition, SlurmNode
from lab.topology import KubeNode, Topology
from slurmclient.hostlist import expand
from tests.builders.ordinary_jobs import submit_ordinary
from tests.builders.sampler import Sampler
from tests.builders.stage import Stage
from tests.e2e.conftest import CONFIG, EXTERNAL_FROM

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NODES, GANGS, SMALLEST, LARGEST, NATIVE_JOBS = 32, 200, 2, 16, 60
CPUS_OF_NODE, CPUS_OF_MEMBER = 8, 4
BOUND_WITHIN_S = 2.0
"""From the first to the last Binding of a gang, by the API server's audit log."""

DONE_WITHIN_S = 1800.0
RUNS = {RUN_FOR: "3s"}


def is_external(release: str) -> bool:
    return tuple(int(part) for part in release.split(".")) >= EXTERNAL_FROM


def topology(release: str) -> Topology:
    nodes = tuple(
        SlurmNode(f"many-{number:02d}", cpus=CPUS_OF_NODE, memory_mb=32_000) for number in range(1, NODES + 1)
    )
    external = is_external(release)
    return Topology(
        nodes=() if external else nodes,
        external_nodes=nodes if external else (),
        partitions=(Partition("batch", default=True),),
        kube_nodes=tuple(KubeNode(node.name, node) for node in nodes),
        slurm_config={"KillWait": "10", "MinJobAge": "7200", "MaxJobCount": "20000"},
    )


@pytest.fixture(scope="module", params=list(RELEASES))
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site of 32 nodes whose API server logs the Bindings."""
    release, workdir = request.param, tmp_path_factory.mktemp("many")
    with Site(release, topology=topology(release), config=CONFIG, audit=True, workdir=workdir) as site:
        yield site


def bindings(site: Site, namespace: str) -> dict[str, list[float]]:
    """The instants of the Bindings that the API server accepted, by gang."""
    found: dict[str, list[float]] = {}
    for event in site.kube.audit_events():
        about = event.get("objectRef") or {}
        bound = about.get("subresource") == "binding" and about.get("namespace") == namespace
        if bound and event.get("responseStatus", {}).get("code") == 201:
            at = datetime.fromisoformat(event["stageTimestamp"].replace("Z", "+00:00")).timestamp()
            found.setdefault(str(about["name"]).rpartition("-")[0], []).append(at)
    return found


def hand_in(stage: Stage, external: bool) -> dict[str, list[PodRef]]:
    """Submit gangs and native jobs in turn; the gangs by name."""
    chosen, gangs = random.Random(20), dict[str, list[PodRef]]()
    for number in range(GANGS):
        name, size = f"gang{number:03d}", chosen.randint(SMALLEST, LARGEST)
        said = {GANG: name, GANG_SIZE: str(size), **RUNS}
        gangs[name] = [
            stage.pod(f"{name}-{rank:02d}", annotations=said, cpus=CPUS_OF_MEMBER, memory="1Gi") for rank in range(size)
        ]
        if number * NATIVE_JOBS // GANGS != (number + 1) * NATIVE_JOBS // GANGS:
            cpus = chosen.choice((2, 4, 8))
            script = ["exec sleep 5"]
            stage.foreign.append(submit_ordinary(stage.site, "batch", cpus=cpus, external=external, script=script))
    return gangs


class JobNodes(Sampler):
    """The nodes of each gang's job in Slurm's order, as `squeue` shows them first; sampled by a thread.

    A job returns nodes as its members end: the first list is the one that it was granted.
    """

    def __init__(self, stage: Stage, *, external: bool) -> None:
        super().__init__("squeue")
        self.first: dict[str, tuple[str, ...]] = {}
        self._stage, self._external = stage, external

    def sample(self) -> None:
        prefix = f"{self._stage.namespace}/gang "
        for job in self._stage.site.squeue("RUNNING"):
            if job.name.startswith(prefix):
                name = job.name.removeprefix(prefix).rpartition("-")[0]
                self.first.setdefault(name, tuple(expand(job.node)))
            elif self._external and job.job_id in self._stage.foreign:
                self._stage.cancel(job.job_id)  # external jobs have no script that ends them


def test_two_hundred_gangs_beside_native_jobs_are_each_bound_at_once_and_all_end(
    many: Site, measured: Callable[[str], None], record_property: Callable[[str, object], None]
) -> None:
    stage = Stage(many, "auto", many.namespace("many-gangs"))
    external = is_external(many.release)
    with JobNodes(stage, external=external) as nodes:
        gangs = hand_in(stage, external)
        total = sum(map(len, gangs.values()))
        _, took = many.timed(
            lambda: succeeded(many, stage.namespace) == total,
            "every member of every gang has succeeded",
            timeout_s=DONE_WITHIN_S,
            every_s=1.0,
        )
    assert not nodes.faults
    assert_ranks_in_order(many, stage.namespace, gangs, nodes.first)
    bound = bindings(many, stage.namespace)
    assert {name: len(bound.get(name, ())) for name in gangs} == {name: len(pods) for name, pods in gangs.items()}
    spans = sorted(max(times) - min(times) for times in bound.values())
    median, most = f"{spans[len(spans) // 2] * 1000:.0f}", f"{spans[-1] * 1000:.0f}"
    measured(
        f"{many.release}: {GANGS} gangs, {total} Pods, {NATIVE_JOBS} native jobs in {took:.0f} s; "
        f"first to last Binding: median {median} ms, most {most} ms"
    )
    row = {"Slurm": many.release, "gangs": str(GANGS), "Pods": str(total), "native jobs": str(NATIVE_JOBS)}
    row |= {"all, s": f"{took:.0f}", "first to last Binding, median ms": median, "most ms": most}
    record_property("table: Gangs of 2 to 16 members on 32 nodes beside native jobs", row)
    assert spans[-1] <= BOUND_WITHIN_S
    assert_one_job_each(stage, gangs)
    stage.finish()
    _, items = many.kube.api("GET", "/api/v1/nodes")
    notes = [key for node in items["items"] for key in node["metadata"].get("annotations", {})]
    assert not [key for key in notes if key.startswith(STATUS_PREFIX)]


def succeeded(site: Site, namespace: str) -> int:
    return sum(pod["status"].get("phase") == "Succeeded" for pod in site.pods(namespace))


def assert_ranks_in_order(
    site: Site, namespace: str, gangs: Mapping[str, list[PodRef]], nodes: Mapping[str, tuple[str, ...]]
) -> None:
    """Hold of every gang that rank i is on the i-th node of its job: by `squeue`, its Node and its annotations."""
    there = {pod["metadata"]["name"]: pod for pod in site.pods(namespace)}
    assert nodes.keys() == gangs.keys(), "a job was never seen running"
    for name, pods in gangs.items():
        members = [there[pod.name] for pod in pods]
        assert tuple(one["spec"]["nodeName"] for one in members) == nodes[name]
        for rank, one in enumerate(members):
            said = one["metadata"]["annotations"]
            assert said[GANG_RANK] == str(rank)
            assert tuple(said[GANG_NODES].split(",")) == nodes[name]


def assert_one_job_each(stage: Stage, gangs: Mapping[str, list[PodRef]]) -> None:
    """Hold that each gang was granted one job: none was released and submitted again."""
    whole = [job for job in stage.jobs(states="all") if job.node]
    assert len(whole) == len(gangs)
