"""A whole measurement of a flood, with the real process that floods and a simulated API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

import bench.real.adversary as adversary
from bench.real.fleet import ALONE
from bench.real.flood_process import FloodProcess
from bench.real.load import CREATING
from bench.real.served import Served
from docs.generate.performance import render
from extender.domain.wellknown import JOB_ID
from lab.clock import now
from lab.site import Site
from simulator.cluster import in_background
from simulator.kube.app import ApiServerApp
from simulator.kube.kubelet import Kubelets
from simulator.kube.resources import PODS
from simulator.kube.server import FakeApiServer
from simulator.kube.storage import ObjectKey, WatchEvent
from simulator.network.asgi_server import serve_on_loopback
from slurmclient import NodeUpdate, SlurmClient

COUNT = 4
ANSWERED = CREATING + 2
"""So many Pods of one flood reach the API server only after it answered one of them."""


def trim(obj: dict[str, Any]) -> None:
    """Drop most of what a huge Pod has: the simulated server copies an object with each write."""
    annotations = obj["metadata"].get("annotations") or {}
    for key in list(annotations)[20:]:
        del annotations[key]


class Bound:
    """Bind every Pod soon after its creation; those of the extender name a job before."""

    def __init__(self, kube: FakeApiServer) -> None:
        self._kube = kube
        self._seen: set[str] = set()
        self.schedulers: dict[str, set[str]] = {}
        """Of the Pods of each namespace."""

        self.flooding = asyncio.Semaphore(0)
        """Has a permit for each Pod of the flood."""

        kube.storage.listen(self._changed)

    def _changed(self, event: WatchEvent) -> None:
        obj = event.object
        if obj["kind"] != "Pod" or obj["metadata"]["uid"] in self._seen:
            return
        self._seen.add(obj["metadata"]["uid"])
        meta, scheduler = obj["metadata"], obj["spec"]["schedulerName"]
        self.schedulers.setdefault(meta["namespace"], set()).add(scheduler)
        if meta["namespace"] == "bench-flood":
            self.flooding.release()
        key = ObjectKey(PODS, meta["namespace"], meta["name"])
        loop = asyncio.get_running_loop()
        if scheduler != ALONE:
            loop.call_later(0.01, self._change, key, self._name)
        loop.call_later(0.02, self._change, key, self._bind)

    def _change(self, key: ObjectKey, edit: Any) -> None:
        if self._kube.storage.get(key) is not None:
            self._kube.change(key, edit)

    @staticmethod
    def _name(pod: dict[str, Any]) -> None:
        pod["metadata"].setdefault("annotations", {})[JOB_ID] = "7"

    @staticmethod
    def _bind(pod: dict[str, Any]) -> None:
        pod["spec"].pop("schedulingGates", None)
        pod["spec"]["nodeName"] = "narrow-0"


class QuietSlurm:
    """Allocate at once, and have a drained node."""

    def __init__(self) -> None:
        self.resumed: list[str] = []

    async def allocate(self, _job: object) -> Any:
        return type("Made", (), {"job_id": 1})()

    async def cancel(self, _jobs: Iterable[int]) -> None:
        pass

    async def job_states(self) -> dict[int, frozenset[str]]:
        return {}

    async def node(self, _name: str) -> Any:
        return type("Node", (), {"drained": True})()

    async def update_node(self, name: str, update: NodeUpdate) -> None:
        assert update.state == ("UNDRAIN",)
        self.resumed.append(name)


async def test_each_round_has_a_quiet_phase_and_a_flood_of_either_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube, slurm = FakeApiServer(now, mutate=trim), QuietSlurm()
    kube.add_node("narrow-0")
    bound = Bound(kube)
    async with (
        serve_on_loopback(ApiServerApp(kube)) as port,
        in_background(Kubelets(kube, start_s=0.01, stop_s=0.01).run()),
    ):

        def admitted(_kube: object, user: str, namespace: str) -> str:
            kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": user, "user": {"token": user}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": user}}],
                "current-context": "c",
            }
            (tmp_path / user).write_text(yaml.safe_dump(config))
            return str(tmp_path / user)

        attack = FloodProcess.attack

        async def attack_and_wait(flood: FloodProcess, scheduler: str) -> None:
            while not bound.flooding.locked():  # left from the flood before
                await bound.flooding.acquire()
            await attack(flood, scheduler)
            for _ in range(ANSWERED):
                await bound.flooding.acquire()

        monkeypatch.setattr(FloodProcess, "attack", attack_and_wait)
        monkeypatch.setattr(adversary, "admit_tenant", admitted)
        monkeypatch.setattr(adversary, "served", lambda _site: Served({}, {}))
        monkeypatch.setattr(adversary, "_drains", lambda _site: [])
        site = cast(Site, type("FakeSite", (), {"kube": None})())
        found = await adversary.measure_adversary(cast(SlurmClient, slurm), site, parts={}, rounds=1, count=COUNT)

    assert bound.schedulers == {"bench-innocent": {"slurm", "alone"}, "bench-flood": {"slurm", "alone"}}
    assert [len(found[key]) for key in ("quiet_p95_s", "flooded_p95_s", "flooded_without_extender_p95_s")] == [1, 1, 1]
    for kind in ("with_extender", "without_extender"):
        assert [one["created"] > 0 for one in found["attacks"][kind]] == [True]
    assert set(found["cpu"][0]) == {"quiet", "flooded", "beside"}
    assert "flood" in found["cpu"][0]["flooded"]["cpu_s"]
    assert set(slurm.resumed) == {"narrow-0"}
    assert found["innocent_throttled"] == 0
    json.dumps(found)
    lines = [line for line in render({"adversary": found}).splitlines() if "flood" in line]
    assert not any("older bench" in line for line in lines)
