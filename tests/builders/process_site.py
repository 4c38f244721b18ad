"""The simulated cluster for tests of the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import httpx

from extender.domain.placeholder import Placeholder
from simulator.cluster import CLUSTER, CONFIG, NAMES, SimCluster, simulated_cluster
from simulator.kube.faults import KubeFault
from simulator.kube.objects import Json
from simulator.kube.pods import pod_key
from simulator.kube.resources import EVENTS, NODES
from simulator.kube.storage import ObjectKey
from simulator.node_names import NodeNaming
from simulator.slurm.job_lifecycle import SimConfig
from simulator.slurm.records import SimJob, SimNode
from simulator.slurm.release import NEWEST

__all__ = ["CLUSTER", "CONFIG", "NAMES", "UNHURRIED", "Site", "a_site", "unhurried_site"]

UNHURRIED = CONFIG.replace("{refreshRate: 2}", "{refreshRate: 0.5}\npolling: {minInterval: 1, maxInterval: 2}")
"""Slow polls: for tests in which minutes pass and nothing depends on how often Slurm is asked. Polls are most of the
work of such a test."""


SITE_KEY = "the-sites-own-key"
FOREIGN_PODS = "foreignPods: {mode: jobs}\n"
"""In the configuration, Slurm holds what Pods of other schedulers use."""

HTTP = 'http: {bind: "extender:8080"}'
FREQUENT_VOTES = 'http: {bind: "extender:8080", bindTimeout: 5s}'
"""In place of `HTTP`: the calls of members end after 4 s, and their Pods come into kube-scheduler's back-off."""

IMPATIENT = "startupDeadline: {duration: 30s}\n"
"""In the configuration, a Pod that has not started after that is reported."""

REGISTERED = {"registered": "yes"}
"""Nodes with this label are registered in Slurm, where REGISTERING is in the configuration."""

REGISTERING = """
nodes:
  unavailableTaint: {effect: NoSchedule}
  external:
    selector: {matchLabels: {registered: "yes"}}
    nodeSets: [k8s]
    features: [{label: zone, feature: "zone-{value}"}]
    topology: [{topology: tree, labels: [zone, rack]}]
    settle: 2s
"""


class Site(SimCluster):
    """Drive and query a simulated cluster in a test."""

    fences_proven = True

    def pod(self, name: str) -> Json:
        pod = self.kube.pod(name)
        assert pod is not None, f"no Pod {name}"
        return pod

    def uid(self, name: str) -> str:
        uid: str = self.pod(name)["metadata"]["uid"]
        return uid

    async def bound(self, name: str, within: float = 300.0) -> str:
        await self.until(lambda: bool(self.node_of(name)), f"a node for {name}", within)
        return self.node_of(name)

    async def gone(self, name: str, within: float = 300.0) -> None:
        await self.until(lambda: self.kube.pod(name) is None, f"the end of {name}", within)

    def placeholder(self, name: str) -> Placeholder:
        p = self.extender.engine.placeholders.by_pod(self.uid(name))
        assert p is not None, f"no placeholder of {name}"
        return p

    def jobs_of(self, name: str) -> list[SimJob]:
        """Live jobs by the readable part of their name."""
        return [job for job in self.live_jobs() if job.name.rpartition("-")[0] == f"default/{name}"]

    def events(self, name: str) -> list[str]:
        """Return reasons of the Events about an object."""
        return [item["reason"] for item in self.kube.storage.of(EVENTS) if item["regarding"]["name"] == name]

    def notes(self, name: str) -> list[str]:
        """Return texts of the Events about an object."""
        return [item["note"] for item in self.kube.storage.of(EVENTS) if item["regarding"]["name"] == name]

    def edit_pod(self, name: str, edit: Callable[[Json], object]) -> None:
        self.kube.change(pod_key("default", name), lambda pod: (edit(pod), None)[1])

    def add_budget(self, allowed: int) -> None:
        """Allow the eviction of so many Pods with the label `app: x`."""
        self.kube.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "b", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "x"}}},
                "status": {"disruptionsAllowed": allowed},
            }
        )

    def gives(self, node: str, more: Mapping[str, str]) -> None:
        """Change the resources that the Node gives to Pods from now on."""

        def edit(one: Json) -> None:
            one["status"]["allocatable"] |= more

        self.kube.change(ObjectKey(NODES, "", node), edit)

    def edit_node(self, name: str, edit: Callable[[Json], object]) -> None:
        self.kube.change(ObjectKey(NODES, "", name), lambda node: (edit(node), None)[1])

    async def fill(self, cpu: str = "8") -> None:
        """Let a Pod hold each node; `first-0` to `first-2`."""
        for number in range(len(NAMES)):
            self.kube.add_pod(f"first-{number}", cpu=cpu)
            await self.bound(f"first-{number}")

    def free_all(self) -> None:
        """Delete the Pods of `fill`."""
        for number in range(len(NAMES)):
            self.kube.delete_pod(f"first-{number}", grace_s=1)

    async def left_alone(self, count: int = 1, *, marked: bool = True) -> list[int]:
        """Run so many Pods, and let them leave while no extender runs; return the numbers of their jobs.

        Not `marked`: no checkpoint could be written, as with jobs of earlier versions.
        """
        fault = KubeFault("", "checkpoints", code=403, times=None)
        if not marked:
            self.kube.faults.add(fault)
        names = [f"web-{number}" for number in range(count)]
        async with self.dying():
            for name in names:
                self.kube.add_pod(name)
            for name in names:
                await self.bound(name)
        self.kube.faults.remove(fault)
        for name in names:
            self.kube.delete_pod(name, grace_s=1)
        for name in names:
            await self.gone(name)
        return [job.job_id for job in self.live_jobs()]

    async def get(self, port: int, path: str) -> httpx.Response:
        async with self.client() as client:
            return await client.get(f"http://extender:{port}{path}")

    async def post(self, path: str, token: str, timeout: float = 700.0) -> httpx.Response:  # noqa: ASYNC109
        """Call a hook."""
        async with self.client(timeout) as client:
            shown = {"Authorization": f"Bearer {token}"} if token else {}
            return await client.post(f"http://extender:8000{path}", headers=shown)

    async def post_to_extender(self, path: str, body: Json) -> Json:
        """Send a request as kube-scheduler does."""
        async with self.client() as client:
            said: Json = (await client.post(f"http://extender:8080{path}", json=body)).json()
            return said

    async def slurm_request(self, method: str, path: str, body: Json) -> Json:
        """Send a request of another client to slurmrestd."""
        async with self.client() as client:
            headers = {"X-SLURM-USER-TOKEN": "t"}
            answer = await client.request(method, f"http://slurm:6820/slurm/v0.0.43/{path}", json=body, headers=headers)
            said: Json = answer.json()
            return said

    async def submit_as_another_user(self, number: int = 0, wishes: Json | None = None) -> int:
        wishes = wishes or {}
        job: Json = {
            "name": f"somebody-elses-{number}",
            "current_working_directory": "/",
            "environment": ["PATH=/bin"],
            "script": "#!/bin/sh\nsleep 1000\n",
            "cpus_per_task": 1,
            "tasks": 1,
            **wishes,
        }
        if wishes.get("flags") == ["EXTERNAL_JOB"]:
            del job["script"]
        answer = await self.slurm_request("POST", "job/submit", {"job": job})
        return int(answer["job_id"])

    async def metric(self, name: str) -> float:
        """Return the value of a metric, its labels as in the text of `/metrics`."""
        lines = (await self.get(8082, "/metrics")).text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"slurm_extender_{name} "))


@asynccontextmanager
async def a_site(
    *,
    slurm_config: SimConfig | None = None,
    nodes: Sequence[SimNode] | None = None,
    fence_key: str = "",
    naming: NodeNaming = NodeNaming.SAME,
    release: str = NEWEST,
) -> AsyncIterator[Site]:
    """Return three nodes of 8 CPUs, partitions `batch` and `urgent`; no extender yet.

    With `fence_key`, the site's, Prolog and Epilog are installed.
    """
    async with simulated_cluster(
        Site, slurm_config=slurm_config, nodes=nodes, fence_key=fence_key, naming=naming, release=release
    ) as site:
        yield site


@asynccontextmanager
async def unhurried_site(
    *,
    slurm_config: SimConfig | None = None,
    nodes: Sequence[SimNode] | None = None,
    naming: NodeNaming = NodeNaming.SAME,
    release: str = NEWEST,
) -> AsyncIterator[Site]:
    """Return the same site, where Slurm is polled rarely."""
    async with a_site(slurm_config=slurm_config, nodes=nodes, naming=naming, release=release) as site:
        site.config = site.config.replace(CONFIG, UNHURRIED)
        yield site
