"""Two hundred gangs on 32 nodes beside native jobs: each is bound at one moment, and nothing is left at the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import pytest

from extender.domain.wellknown import GANG, GANG_NODES, GANG_RANK, GANG_SIZE, GATE, STATUS_PREFIX
from lab.build_slurm import RELEASES
from lab.clock import elapsed
from lab.pods import RUN_FOR
from lab.probe import decoded, request
from lab.site import PodRef, Site
from lab.slurm_conf import Partition, SlurmNode
from lab.topology import KubeNode, Topology
from slurmclient.hostlist import expand
from tests.builders.native_jobs import submit_native_job
from tests.builders.sampler import Sampler
from tests.builders.stage import Stage
from tests.builders.staged_gangs import BARRIER_S
from tests.e2e.conftest import CONFIG, EXTERNAL_FROM
from tests.e2e.test_gang_slots import idle_nodes

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NODES, GANGS, SMALLEST, LARGEST, NATIVE_JOBS = 32, 200, 2, 16, 60
CPUS_OF_NODE, CPUS_OF_MEMBER = 8, 4
DONE_WITHIN_S = 1800.0
RUNS = {RUN_FOR: "3s"}
MEMBER: dict[str, Any] = {"cpus": CPUS_OF_MEMBER, "memory": "1Gi", "schedulingGates": [{"name": GATE}]}
"""Of each Pod. It has the gate that the admission policy of the manifests sets."""

NATIVE_S = 5.0
BOUND_EVERY_S = 0.05
"""Twenty samples in a second, if the machine allows."""

SQUEUE_EVERY_S = 0.5
"""Members run for 3 s, and a job keeps its nodes meanwhile."""

TABLE = "table: Gangs of 2 to 16 members on 32 nodes beside native jobs"
OK, CREATED = 200, 201


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


def gang_of(pod: str) -> str:
    return pod.rpartition("-")[0]


class AcceptedBindings:
    """The Bindings that the API server accepted, by its audit log: when it received each, and when it answered."""

    def __init__(self, site: Site, namespace: str) -> None:
        self._times: dict[str, list[tuple[float, float]]] = {}
        for event in site.kube.audit_events():
            about = event.get("objectRef") or {}
            bound = about.get("subresource") == "binding" and about.get("namespace") == namespace
            if bound and event.get("responseStatus", {}).get("code") == CREATED:
                times = _instant(event["requestReceivedTimestamp"]), _instant(event["stageTimestamp"])
                self._times.setdefault(gang_of(str(about["name"])), []).append(times)

    @property
    def longest_s(self) -> float:
        """The longest time that the API server took for one."""
        return max(answered - received for times in self._times.values() for received, answered in times)

    def span(self, moment: int) -> dict[str, float]:
        """Seconds from the first to the last of each gang; `moment` 0: as received, 1: as answered."""
        by_gang = {name: [one[moment] for one in times] for name, times in self._times.items()}
        return {name: max(times) - min(times) for name, times in by_gang.items()}


def _instant(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def drawn_sizes() -> dict[str, int]:
    """The number of members of each gang, by name."""
    drawn = random.Random(20)
    return {f"gang{number:03d}": drawn.randint(SMALLEST, LARGEST) for number in range(GANGS)}


def hand_in(stage: Stage, sizes: Mapping[str, int], *, external: bool) -> dict[str, list[PodRef]]:
    """Submit gangs and native jobs in turn; the members of each gang in the order of their ranks."""
    drawn, gangs = random.Random(60), dict[str, list[PodRef]]()
    for number, (name, size) in enumerate(sizes.items()):
        said = {GANG: name, GANG_SIZE: str(size), **RUNS}
        gangs[name] = [stage.pod(f"{name}-{rank:02d}", annotations=said, **MEMBER) for rank in range(size)]
        if number * NATIVE_JOBS // GANGS != (number + 1) * NATIVE_JOBS // GANGS:
            cpus = drawn.choice((2, 4, 8))
            script = [f"exec sleep {NATIVE_S:g}"]
            stage.foreign.append(submit_native_job(stage.site, "batch", cpus=cpus, external=external, script=script))
    return gangs


class JobNodes(Sampler):
    """The nodes of each gang's job in Slurm's order, as `squeue` shows them first; sampled by a thread.

    A job returns nodes as its members end: the first list is the one that it was granted.
    """

    def __init__(self, stage: Stage, *, external: bool) -> None:
        super().__init__("squeue", every_s=SQUEUE_EVERY_S)
        self.first: dict[str, tuple[str, ...]] = {}
        self.native: dict[int, float] = {}
        """When each native job was seen first."""
        self._stage, self._external = stage, external

    def sample(self) -> None:
        prefix, foreign = f"{self._stage.namespace}/gang ", set(self._stage.foreign)
        for job in self._stage.site.squeue("RUNNING"):
            if job.name.startswith(prefix):
                self.first.setdefault(gang_of(job.name.removeprefix(prefix)), tuple(expand(job.node)))
            elif job.job_id in foreign:
                ran = elapsed() - self.native.setdefault(job.job_id, elapsed())
                if self._external and ran >= NATIVE_S:  # external jobs have no script that ends them
                    self._stage.cancel(job.job_id)


class BoundMembers(Sampler):
    """The members that are bound and have not ended, as the API server lists them; sampled by a thread."""

    def __init__(self, stage: Stage, sizes: Mapping[str, int]) -> None:
        super().__init__("bound members", every_s=BOUND_EVERY_S)
        self._site, self._sizes = stage.site, sizes
        self._seen: dict[str, set[str]] = {name: set() for name in sizes}
        self._began: dict[str, float] = {}
        self._whole: dict[str, float] = {}
        query = urlencode({"fieldSelector": "spec.nodeName!=,status.phase!=Succeeded", "includeObject": "None"})
        self._url = f"{stage.site.kube.url}/api/v1/namespaces/{stage.namespace}/pods?{query}"
        # Rows of a table are a twentieth of the Pods.
        self._headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

    @property
    def in_part(self) -> dict[str, float]:
        """Seconds from the first sample with a member of a gang to the first one after all of them were seen."""
        return {name: whole - self._began[name] for name, whole in self._whole.items()}

    def sample(self) -> None:
        headers = self._headers | {"Authorization": f"Bearer {self._site.kube.token()}"}
        status, answer = request("GET", self._url, headers=headers, ca_file=self._site.kube.ca_file)
        assert status == OK, answer
        at = elapsed()
        for row in decoded(answer)["rows"] or ():
            pod = str(row["cells"][0])
            self._seen[gang_of(pod)].add(pod)
            self._began.setdefault(gang_of(pod), at)
        for name in self._began.keys() - self._whole.keys():
            if len(self._seen[name]) == self._sizes[name]:
                self._whole[name] = at


def test_two_hundred_gangs_beside_native_jobs_are_each_bound_at_once_and_all_end(
    many: Site, measured: Callable[[str], None], record_property: Callable[[str, object], None]
) -> None:
    stage, sizes = Stage(many, "auto", many.namespace("many-gangs")), drawn_sizes()
    external, total = is_external(many.release), sum(sizes.values())
    with JobNodes(stage, external=external) as nodes, BoundMembers(stage, sizes) as bound:
        gangs = hand_in(stage, sizes, external=external)
        _, took = many.timed(
            lambda: not listed(many, stage.namespace, "status.phase!=Succeeded"),
            "every member of every gang has succeeded",
            timeout_s=DONE_WITHIN_S,
            every_s=1.0,
        )
    assert not nodes.faults
    assert not bound.faults
    bindings = AcceptedBindings(many, stage.namespace)
    spans = {"sent": bindings.span(0), "answered": bindings.span(1), "sampled": bound.in_part}
    row = {"Slurm": many.release, "gangs": str(GANGS), "Pods": str(total), "native jobs": str(NATIVE_JOBS)}
    row |= {"until all ended, s": f"{took:.0f}"}
    for by, span in spans.items():
        in_order = sorted(span.values())
        median, most = in_order[len(in_order) // 2] * 1000, in_order[-1] * 1000
        row[f"first to last Binding {by}, ms: median, most"] = f"{median:.0f}, {most:.0f}"
    row["longest answer to a Binding, ms"] = f"{bindings.longest_s * 1000:.0f}"
    row["samples in a second"] = f"{bound.rate:.1f}"
    record_property(TABLE, row)
    measured(f"many gangs: {row}")
    # A busy machine delays the answers of the API server, whatever the extender does.
    allowed = {"sent": 0.0, "answered": bindings.longest_s, "sampled": bindings.longest_s + 1 / bound.rate}
    for by, span in spans.items():
        assert span.keys() == gangs.keys()
        assert {name: one for name, one in span.items() if one > BARRIER_S + allowed[by]} == {}, by
    assert_ranks_in_order(many, stage.namespace, gangs, nodes.first)
    assert_one_job_each(stage, gangs)
    assert nodes.native.keys() == set(stage.foreign), "a native job was never seen running"
    remove_all(stage)
    assert_nothing_left(stage)


def listed(site: Site, namespace: str, selector: str = "") -> list[dict[str, Any]]:
    """At most one Pod of the namespace that this field selector selects."""
    query = urlencode({"fieldSelector": selector, "limit": 1})
    found: list[dict[str, Any]] = site.kube.api("GET", f"/api/v1/namespaces/{namespace}/pods?{query}")[1]["items"]
    return found


def assert_ranks_in_order(
    site: Site, namespace: str, gangs: Mapping[str, list[PodRef]], nodes: Mapping[str, tuple[str, ...]]
) -> None:
    """Hold of every gang that rank i is on the i-th node of its job: by `squeue`, its Node and its annotations."""
    there = {pod["metadata"]["uid"]: pod for pod in site.pods(namespace)}
    assert nodes.keys() == gangs.keys(), "a job was never seen running"
    for name, pods in gangs.items():
        members = [there[pod.uid] for pod in pods]
        assert tuple(one["spec"]["nodeName"] for one in members) == nodes[name]
        for rank, one in enumerate(members):
            said = one["metadata"]["annotations"]
            assert said[GANG_RANK] == str(rank)
            assert tuple(said[GANG_NODES].split(",")) == nodes[name]


def assert_one_job_each(stage: Stage, gangs: Mapping[str, list[PodRef]]) -> None:
    """Hold that each gang was granted one job: none was released and submitted again."""
    whole = [job for job in stage.jobs(states="all") if job.node]
    assert len(whole) == len(gangs)


def remove_all(stage: Stage) -> None:
    """Delete all Pods, some at a time: one request for all of them may last longer than the lab waits for an answer."""
    path = f"/api/v1/namespaces/{stage.namespace}/pods?gracePeriodSeconds=1&limit=200"

    def none_left() -> bool:
        stage.site.kube.api("DELETE", path)
        return not listed(stage.site, stage.namespace)

    stage.site.wait_for(none_left, "no Pod is left", timeout_s=300)


def assert_nothing_left(stage: Stage) -> None:
    """Hold that no job lives, each node is idle in Slurm, and no Node has an annotation of the extender."""
    site = stage.site
    stage.finish()
    every = {node.like.name for node in site.topology.kube_nodes}
    site.wait_for(lambda: idle_nodes(stage) == every, "every node is idle in Slurm")
    _, items = site.kube.api("GET", "/api/v1/nodes")
    notes = [key for node in items["items"] for key in node["metadata"].get("annotations", {})]
    assert not [key for key in notes if key.startswith(STATUS_PREFIX)]
