"""300 Pods with devices in turnover on 8 nodes of 8 GPUs: each has the very devices of its job, and none is shared.

Beside them run native GPU jobs, and Pods of the cluster's own scheduler with ResourceClaims, which know nothing of
Slurm. Every version of every ResourceClaim and Pod is looked at, in the order of their writes. What default-scheduler
gives its Pods before a reminder is written is counted apart: no extender can prevent it (docs/devices.md, Reminders).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import pytest

from extender.domain.wellknown import GATE, JOB_ID
from lab.build_kubernetes import newest_minor, older_minors, proved_minors
from lab.build_slurm import RELEASES
from lab.devices import (
    API,
    GRES,
    MAP,
    RESOURCE,
    free,
    grant_devices,
    own_resource_claim,
    publish,
    requesting,
    template,
)
from lab.site import PodRef, Site
from lab.slurm_conf import Partition, SlurmNode
from lab.topology import KubeNode, Topology
from tests.builders.device_ledger import FINISHED_PHASES, DeviceLedger
from tests.builders.native_jobs import submit_native_job
from tests.builders.object_history import ObjectHistory, stream, version_of
from tests.builders.slurm_devices import SlurmDevices
from tests.builders.stage import Stage
from tests.e2e.conftest import CONFIG

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NODES, EACH = 8, 8
PODS, THEIRS, NATIVE_JOBS, RACES, AT_ONCE = 300, 24, 40, 100, 4
THEIR = "theirs-"
"""How the names of Pods of default-scheduler begin."""

RUNS = {"lab.slurm-extender.io/run-for": "5s"}
DONE_WITHIN_S = 900.0
TABLE = "table: Pods with devices in turnover on 8 nodes of 8 GPUs"

SLURM = "26.05"
WITHOUT_DRA = "1.33"
"""Its API server serves no ResourceClaims by default."""

KINDS = [pytest.param((SLURM, minor), id=f"{SLURM}-{minor}") for minor in (newest_minor(), *older_minors())]
KINDS += [
    pytest.param((release, newest_minor()), id=f"{release}-{newest_minor()}")
    for release in RELEASES
    if release != SLURM
]
KINDS += [
    pytest.param((SLURM, minor), id=f"{SLURM}-{minor}", marks=pytest.mark.proved_kubernetes)
    for minor in proved_minors()
    if minor != WITHOUT_DRA
]


@dataclass(frozen=True, slots=True)
class Floor:
    """The site, and a namespace of its own."""

    site: Site
    stage: Stage

    @property
    def resource_claims(self) -> str:
        """The path of its ResourceClaims."""
        return f"{API}/namespaces/{self.stage.namespace}/resourceclaims"

    @property
    def manages(self) -> bool:
        """A kube-controller-manager makes ResourceClaims from templates, and frees those of Pods that are over."""
        return self.site.kube.controller_manager is not None

    def history(self) -> ObjectHistory:
        return ObjectHistory(self.site.kube, [self.resource_claims, f"/api/v1/namespaces/{self.stage.namespace}/pods"])

    def entry(self, name: str, count: int) -> dict[str, Any]:
        """One of `spec.resourceClaims`, for so many devices."""
        if self.manages:
            template(self.site, self.stage.namespace, f"of-{count}", count)
            return {"name": "g", "resourceClaimTemplateName": f"of-{count}"}
        own_resource_claim(self.site, self.stage.namespace, name, count)
        return {"name": "g", "resourceClaimName": name}

    def with_resource_claim(self, name: str, count: int) -> PodRef:
        gates = [{"name": GATE}]
        resource_claims = [self.entry(name, count)]
        return self.stage.pod(name, annotations=RUNS, resourceClaims=resource_claims, schedulingGates=gates)

    def extended(self, name: str, count: int) -> PodRef:
        containers = [requesting({RESOURCE: str(count)})]
        gates = [{"name": GATE}]
        return self.stage.pod(name, annotations=RUNS, containers=containers, schedulingGates=gates)

    def foreign_pod(self, name: str) -> PodRef:
        """A Pod of the cluster's own scheduler with a ResourceClaim."""
        resource_claims = [self.entry(name, 1)]
        return self.site.pod(
            name, self.stage.namespace, annotations=RUNS, scheduler="default-scheduler", resourceClaims=resource_claims
        )


def topology() -> Topology:
    nodes = tuple(
        SlurmNode(f"dev-{number}", cpus=32, memory_mb=128_000, gpus=EACH, gpu_type="h100")
        for number in range(1, NODES + 1)
    )
    return Topology(
        nodes=nodes,
        external_nodes=(),
        partitions=(Partition("batch", default=True),),
        kube_nodes=tuple(KubeNode(node.name, node) for node in nodes),
        slurm_config={"KillWait": "10", "MinJobAge": "7200", "MaxJobCount": "20000"},
    )


@pytest.fixture(scope="module", params=KINDS)
def floor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with a ResourceSlice of each of its nodes."""
    release, minor = request.param
    workdir = tmp_path_factory.mktemp("devices")
    with Site(release, topology=topology(), config=CONFIG, kubernetes=minor, workdir=workdir) as site:
        grant_devices(site)
        for node in site.topology.kube_nodes:
            # The two schedulers meet in the middle, once a node is nearly full.
            publish(site, node.name, EACH, last_first=True)
        site.reconfigure(GRES, more=MAP)
        yield site


def note_finished(floor: Floor) -> set[str]:
    """Return the Pods that are over, by UID; free their ResourceClaims where no kube-controller-manager does."""
    pods = floor.site.pods(floor.stage.namespace)
    finished = {pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") in FINISHED_PHASES}
    for resource_claim in () if floor.manages else floor.site.kube.api("GET", floor.resource_claims)[1]["items"]:
        if any(one["uid"] in finished for one in resource_claim.get("status", {}).get("reservedFor", ())):
            free(floor.site, f"{floor.resource_claims}/{resource_claim['metadata']['name']}")
    return finished


def all_bound(floor: Floor, pods: Sequence[PodRef]) -> bool:
    """Return whether these Pods have nodes; free the ResourceClaims of Pods that are over, whose devices they get."""
    note_finished(floor)
    return all((floor.site.read(ref) or {"spec": {}})["spec"].get("nodeName") for ref in pods)


def hand_in(here: Floor) -> list[PodRef]:
    """Create the Pods, and in between those of default-scheduler and native jobs; return the Pods on Slurm."""
    drawn, ours = random.Random(21), list[PodRef]()
    for number in range(PODS):
        extended = here.manages and drawn.random() < 0.5
        ours.append(
            (here.extended if extended else here.with_resource_claim)(f"p{number:03d}", drawn.choice((1, 1, 2, 4)))
        )
        if number * THEIRS // PODS != (number + 1) * THEIRS // PODS:
            here.foreign_pod(f"{THEIR}{number:03d}")
        if number * NATIVE_JOBS // PODS != (number + 1) * NATIVE_JOBS // PODS:
            gpus, script = drawn.choice((1, 2)), ["exec sleep 4"]
            here.stage.foreign.append(submit_native_job(here.site, "batch", cpus=1, gpus=gpus, script=script))
    return ours


def test_300_pods_in_turnover_have_the_devices_of_their_jobs_and_share_none(
    floor: Site, measured: Callable[[str], None], record_property: Callable[[str, object], None]
) -> None:
    here = Floor(floor, Stage(floor, "batch", floor.namespace("turnover")))
    ledger = DeviceLedger()
    before = floor.metric("device_conflicts_total")
    scheduler = floor.kube.start_scheduler(name="default")
    with here.history() as history, SlurmDevices(floor) as slurm:
        ours = hand_in(here)

        def all_finished() -> bool:
            finished = note_finished(here)
            return len(finished) >= PODS + THEIRS

        _, took = floor.timed(all_finished, "every Pod has ended", timeout_s=DONE_WITHIN_S, every_s=1.0)
        ledger.feed(history.changes())
    scheduler.stop()
    different = []
    for ref in ours:
        bound = ledger.bound[ref.uid]
        given = slurm.found.get(int(bound.annotations[JOB_ID]))
        if not bound.devices or bound.devices != given:
            different.append(f"{bound}, and Slurm: {given}")
    conflicts = floor.metric("device_conflicts_total") - before
    kubernetes = floor.kube.minor
    measured(
        f"{floor.release}, Kubernetes {kubernetes}: {PODS} Pods, {THEIRS} of default-scheduler, {NATIVE_JOBS} native "
        f"jobs in {took:.0f} s; {len(different)} with other devices, {len(ledger.shared)} shared, "
        f"{len(ledger.shared_while_forgotten)} shared while forgotten: {sorted(ledger.shared_while_forgotten)}, "
        f"{len(ledger.contested)} contested, {conflicts:.0f} conflicts counted"
    )
    row = {"Slurm": floor.release, "Kubernetes": kubernetes, "Pods": str(PODS), "all, s": f"{took:.0f}"}
    row |= {"other devices than Slurm's": str(len(different)), "shared by two Pods": str(len(ledger.shared))}
    row |= {"shared while forgotten": str(len(ledger.shared_while_forgotten))}
    record_property(TABLE, row | {"conflicts counted": f"{conflicts:.0f}"})
    assert not slurm.faults
    assert not different
    assert not ledger.shared
    assert not ledger.not_reminded
    assert all(THEIR in pair for pair in ledger.shared_while_forgotten)
    assert not ledger.moved
    assert conflicts >= 1
    here.stage.finish()


class Rival:
    """Another scheduler: the moment a ResourceClaim gets devices for a job, it allocates them to one of its own."""

    def __init__(self, floor: Floor) -> None:
        self.raced: set[str] = set()
        """UIDs of the ResourceClaims that it raced."""

        self.faults: list[BaseException] = []
        self._floor = floor
        self._stopped = threading.Event()
        self._made = 0
        self._free: list[str] = []
        self._held: list[str] = []
        self._thread = threading.Thread(target=self._race, name="rival", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.prepare(0)

    def prepare(self, count: int) -> None:
        """Free the ResourceClaims that it has, and create those that it needs next."""
        while self._held:
            free(self._floor.site, self._held.pop())
        for _ in range(count):
            self._made += 1
            self._free.append(
                own_resource_claim(self._floor.site, self._floor.stage.namespace, f"rival-{self._made:04d}")
            )

    def _race(self) -> None:
        try:
            kube, path = self._floor.site.kube, self._floor.resource_claims
            for change in stream(kube, path, since=version_of(kube, path)):
                if self._stopped.is_set():
                    return
                self._resource_claim_changed(change["object"])
        except BaseException as error:
            self.faults.append(error)

    def _resource_claim_changed(self, resource_claim: dict[str, Any]) -> None:
        meta, allocation = resource_claim["metadata"], resource_claim.get("status", {}).get("allocation")
        if JOB_ID not in meta.get("annotations", {}) or not allocation or meta["uid"] in self.raced or not self._free:
            return
        path = self._free.pop()
        body = {"status": {"allocation": allocation}}
        status, _ = self._floor.site.kube.api(
            "PATCH", f"{path}/status", body, content_type="application/merge-patch+json"
        )
        assert status == 200
        self._held.append(path)
        self.raced.add(meta["uid"])


def test_a_rival_that_allocates_the_same_devices_at_the_same_time_never_shares_them_100_times(
    floor: Site, measured: Callable[[str], None], record_property: Callable[[str, object], None]
) -> None:
    here = Floor(floor, Stage(floor, "batch", floor.namespace("races")))
    ledger = DeviceLedger()
    before, number = floor.metric("device_conflicts_total"), 0
    with here.history() as history, SlurmDevices(floor) as slurm, Rival(here) as rival:
        while len(rival.raced) < RACES:
            rival.prepare(AT_ONCE)
            pods = [here.with_resource_claim(f"p{number + at:03d}", 1) for at in range(AT_ONCE)]
            number += AT_ONCE
            floor.wait_for(partial(all_bound, here, pods), "the Pods are bound", timeout_s=180, every_s=0.5)
            assert not rival.faults
        ledger.feed(history.changes())
    conflicts = floor.metric("device_conflicts_total") - before
    measured(
        f"{floor.release}, Kubernetes {floor.kube.minor}: {len(rival.raced)} races for {number} Pods, "
        f"{len(ledger.contested)} devices contested, {conflicts:.0f} conflicts counted, {len(ledger.shared)} shared"
    )
    row = {"Slurm": floor.release, "Kubernetes": floor.kube.minor, "races": str(len(rival.raced))}
    row |= {"conflicts counted": f"{conflicts:.0f}", "shared by two Pods": str(len(ledger.shared))}
    record_property("table: Races with another scheduler for a device", row)
    assert not slurm.faults
    assert len(ledger.bound) == number
    assert all(one.devices == slurm.found[int(one.annotations[JOB_ID])] for one in ledger.bound.values())
    assert not ledger.shared
    assert len(ledger.contested) >= RACES
    assert conflicts >= RACES
    here.stage.finish()
