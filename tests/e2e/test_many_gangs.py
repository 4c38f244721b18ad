"""Two hundred gangs on 32 nodes beside native jobs: each is bound at one moment, and nothing is left at the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from extender.domain.wellknown import GANG, GANG_NODES, GANG_SIZE, STATUS_PREFIX
from lab.build_slurm import RELEASES
from lab.site import PodRef, Site
from lab.slurm_conf import Partition, SlurmNode
from lab.topology import KubeNode, Topology
from slurmclient.hostlist import expand
from tests.builders.ordinary_jobs import submit_ordinary
from tests.builders.stage import Stage
from tests.e2e.conftest import CONFIG, EXTERNAL_FROM

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NODES, GANGS, SMALLEST, LARGEST, NATIVE_JOBS = 32, 200, 2, 16, 60
CPUS_OF_NODE, CPUS_OF_MEMBER = 8, 4
BOUND_WITHIN_S = 2.0
"""From the first to the last Binding of a gang, by the API server's audit log."""

DONE_WITHIN_S = 1800.0
RUNS = {"lab.slurm-extender.io/run-for": "2s"}


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


def test_two_hundred_gangs_beside_native_jobs_are_each_bound_at_once_and_all_end(
    many: Site, measured: Callable[[str], None]
) -> None:
    stage = Stage(many, "auto", many.namespace("many-gangs"))
    external = is_external(many.release)
    gangs = hand_in(stage, external)
    ranks: dict[str, tuple[list[str], list[str]]] = {}

    def all_over() -> bool:
        if external:  # external jobs have no script that ends them
            for job in many.squeue("RUNNING"):
                if job.job_id in stage.foreign:
                    stage.cancel(job.job_id)
        there = {pod["metadata"]["name"]: pod for pod in many.pods(stage.namespace)}
        placed = {job.name.partition("gang ")[2].rpartition("-")[0]: job.node for job in many.squeue("RUNNING")}
        for name, pods in gangs.items():
            said = (there[pods[0].name]["metadata"].get("annotations") or {}) if pods[0].name in there else {}
            if GANG_NODES in said and placed.get(name) and name not in ranks:
                ranks[name] = list(expand(placed[name])), said[GANG_NODES].split(",")
        return len(there) == sum(map(len, gangs.values())) and all(
            pod["status"].get("phase") == "Succeeded" for pod in there.values()
        )

    _, took = many.timed(all_over, "every member of every gang has succeeded", timeout_s=DONE_WITHIN_S)
    bound = bindings(many, stage.namespace)
    assert {name: len(bound.get(name, ())) for name in gangs} == {name: len(pods) for name, pods in gangs.items()}
    spans = sorted(max(times) - min(times) for times in bound.values())
    measured(
        f"{many.release}: {GANGS} gangs, {sum(map(len, gangs.values()))} Pods, {NATIVE_JOBS} native jobs in {took:.0f} "
        f"s; first to last Binding: median {spans[len(spans) // 2] * 1000:.0f} ms, most {spans[-1] * 1000:.0f} ms"
    )
    assert spans[-1] <= BOUND_WITHIN_S
    assert all(nodes == said for nodes, said in ranks.values()), "a rank is not on its place in the order of the nodes"
    stage.finish()
    _, nodes = many.kube.api("GET", "/api/v1/nodes")
    notes = [key for node in nodes["items"] for key in node["metadata"].get("annotations", {})]
    assert not [key for key in notes if key.startswith(STATUS_PREFIX)]
