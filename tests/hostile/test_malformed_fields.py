"""A malformed field of an object in the API server changes nothing that another field of the object says.

An object that cannot be read keeps its last state in the stores (`tests/unit/kube/test_store.py`). What a reading
without an error may say is stated here: no device looks free, no Pod looks ended, no cordon of others is removed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import pytest

from extender.domain.devices.views import DeviceId, ResourceClaimView
from extender.domain.jobs.checkpoint import HIGHEST
from extender.domain.ports import Clock
from extender.domain.views import NodeView, OwnerReference, PodView
from extender.domain.wellknown import CHECKPOINT_PREFIX
from extender.kube.checkpoints import CheckpointLease
from extender.kube.connection import ApiConnection, ApiResponse
from extender.kube.errors import ApiUnavailable
from extender.kube.node_writes import MANAGER, NodeWriter
from extender.kube.owners import OwnerReader
from extender.kube.served import ServedKind
from extender.kube.wire.stream import POD, RESOURCE_CLAIM
from tests.builders import kube_samples
from tests.builders.hostile_values import VALUES, Path, with_each_field_replaced
from tests.builders.loop_clock import LoopClock

IMPOSSIBLE = {"an integer of 5,000 digits"}
"""Numbers that Go's parser rejects: no API server stores or sends them."""

NAMES = {"uid", "namespace", "name", "resourceVersion"}
"""Fields that say which object it is. A line of a watch that lacks one is unreadable: everything is listed again."""

GPU = DeviceId("gpu.example.com", "n1", "gpu-0")
RESULTS: Path = ("status", "allocation", "devices", "results")
CPUS = "dra.cpu"


def changes(sample: Any) -> Iterator[tuple[Path, str, bytes]]:
    """Yield lines of a watch with each field of the object replaced."""
    for path, value, body in with_each_field_replaced({"type": "MODIFIED", "object": sample}):
        named = path[1:2] == ("metadata",) and (len(path) == 2 or path[2] in NAMES)
        if len(path) > 1 and path[0] == "object" and not named and value not in IMPOSSIBLE:
            yield path[1:], value, body


def is_on_the_way(path: Path, to: Path) -> bool:
    """Return whether a field is replaced by its own replacement, or by that of one of the two paths' common part."""
    return path == to[: len(path)] or to == path[: len(to)]


def a_resource_claim(*results: dict[str, Any], cpuset: str = "0") -> dict[str, Any]:
    parameters = {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": cpuset}}
    config = [
        {"requests": [one["request"]], "opaque": {"driver": one["driver"], "parameters": parameters}} for one in results
    ]
    sample: dict[str, Any] = json.loads(json.dumps(kube_samples.RESOURCE_CLAIM))
    sample["spec"]["devices"]["config"] = config
    sample["status"]["allocation"]["devices"] = {"results": list(results), "config": config}
    return sample


A_GPU = {"request": "gpu", "driver": GPU.driver, "pool": GPU.pool, "device": GPU.device, "adminAccess": False}
A_SHARE = {"request": "cpus", "driver": CPUS, "pool": "n1", "device": "all", "shareID": "1"}


def read_resource_claim(body: bytes) -> ResourceClaimView | None:
    """Return the view in a line of a watch; `None`: the store keeps the last one."""
    return RESOURCE_CLAIM.change(body).view


def test_no_malformed_field_frees_the_device_of_a_resource_claim() -> None:
    free = []
    for path, value, body in changes(a_resource_claim(A_GPU)):
        if is_on_the_way(path, RESULTS) and path[-1:] != ("adminAccess",):
            continue  # these fields name the device
        view = read_resource_claim(body)
        if (view is None or GPU not in view.devices) and (path[-1:], value) != (("adminAccess",), "true"):
            free.append((path, value))
    assert free == []


def test_no_malformed_field_frees_the_cpus_of_a_share() -> None:
    """Only an entry for another driver or request, or none, says that a share names no CPU."""
    whole, cpu = DeviceId(CPUS, "n1", "all"), DeviceId(CPUS, "n1", "all/0")
    config: Path = ("status", "allocation", "devices", "config")
    names = {(*config, 0, "opaque", "driver"), (*config, 0, "requests", 0)}
    absent = {name for name, value in VALUES.items() if value in {b"null", b"[]", b'""'} or value.startswith(b"{")}
    free = []
    for path, value, body in changes(a_resource_claim(A_SHARE)):
        if is_on_the_way(path, RESULTS):
            continue
        if path in names or (is_on_the_way(path, (*config, 0, "opaque", "parameters")) and value in absent):
            continue
        view = read_resource_claim(body)
        if view is None or not view.devices & {whole, cpu}:
            free.append((path, value))
    assert free == []


def a_running_pod() -> dict[str, Any]:
    sample: dict[str, Any] = json.loads(json.dumps(kube_samples.POD))
    sample["metadata"].pop("deletionTimestamp")
    sample["status"]["phase"] = "Running"
    return sample


def test_no_malformed_field_ends_or_unbinds_a_pod() -> None:
    wrong = []
    for path, value, body in changes(a_running_pod()):
        view: PodView | None = POD.change(body).view
        if view is None:
            continue  # the store keeps the last one
        if view.finished or view.deleted_at is not None:
            wrong.append((path, value, "ended"))
        if not view.node_name and not is_on_the_way(path, ("spec", "nodeName")):
            wrong.append((path, value, "unbound"))
    assert wrong == []


@dataclass
class OneAnswer:
    """Stands for the connection to an API server that always answers the same."""

    body: bytes = b""

    async def request(self, *_: object, **__: object) -> ApiResponse:
        return ApiResponse(200, {}, self.body)


Act = Callable[[ApiConnection], Awaitable[object]]


async def readings(sample: Any, act: Act) -> list[tuple[Path, str, object]]:
    """Return what is read of an answer with each field replaced; `ApiUnavailable` is left out, others are raised."""
    found = []
    for path, value, body in with_each_field_replaced(sample):
        try:
            found.append((path, value, await act(cast("ApiConnection", OneAnswer(body)))))
        except ApiUnavailable:
            continue
    return found


async def test_checkpoints_are_read_or_unavailable() -> None:
    writer = "0" * 16
    lease = {"metadata": {"annotations": {CHECKPOINT_PREFIX + writer: "7", "other": "x"}}}
    found = await readings(lease, lambda connection: CheckpointLease(connection, "ns", "l").read())
    assert found
    for path, value, numbers in found:
        assert isinstance(numbers, dict)
        assert set(numbers) <= {writer}, (path, value)
        assert all(0 <= number <= HIGHEST for number in numbers.values()), (path, value)
        assert numbers or is_on_the_way(path, ("metadata", "annotations")), (path, value)


KINDS = {"resources": [{"name": "jobs", "kind": "Job", "namespaced": True}]}


async def test_the_kinds_of_an_api_version_are_read_or_unavailable() -> None:
    owner = OwnerReference("batch/v1", "Job", "j", "u")
    found = await readings(KINDS, lambda connection: OwnerReader(connection, rng=Random(0))._kind(owner))
    assert found
    for path, value, kind in found:
        assert kind is None or cast("Any", kind).kind == "Job", (path, value)
    served = await readings(KINDS, lambda connection: ServedKind(connection, "batch", ["v1"], "jobs")._kinds("/apis"))
    assert served
    assert all(isinstance(names, set) and all(isinstance(one, str) for one in names) for _, _, names in served)


@pytest.mark.looptime
@pytest.mark.parametrize("manager", ["another", MANAGER])
async def test_no_malformed_field_makes_a_cordon_of_others_the_extenders(manager: str) -> None:
    entry = {"manager": manager, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}
    node = {"metadata": {"name": "n", "managedFields": [entry]}}
    clock: Clock = LoopClock()
    for path, value, own in await readings(
        node, lambda connection: NodeWriter(connection, clock=clock)._has_own_cordon(NodeView("n"))
    ):
        absent = path == ("metadata",) or (len(path) == 2 and value in {"null", "a list"})
        assert own is not True or absent or manager == MANAGER, (path, value)
