"""The topmost owner of a Pod, as far as it may be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from extender.domain.gangs.context import ControllerView, root_annotations
from extender.domain.ports import PortError
from extender.domain.views import OwnerReference
from extender.domain.wellknown import BRIDGE_PREFIX
from extender.kube.owners import OwnerReader
from extender.kube.wire.meta import LONGEST_OWNER
from extender.kube.wire.pod import read_pod
from simulator.kube.faults import KubeFault
from simulator.kube.objects import Json, owner_reference
from simulator.kube.resources import BUILT_IN, JOBS, Resource
from simulator.kube.storage import ObjectKey
from tests.builders.fake_api import FakeApi, a_rng, fake_api

pytestmark = pytest.mark.looptime

JOBSETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
POOLS = Resource("example.org", "v1", "pools", "Pool", namespaced=False)


@dataclass
class Bench:
    api: FakeApi
    reader: OwnerReader

    def create(self, api_version: str, kind: str, name: str, above: Json | None = None, **annotations: str) -> Json:
        given = {BRIDGE_PREFIX + key: value for key, value in annotations.items()}
        meta: Json = {"name": name, "namespace": "default", "annotations": given}
        if above is not None:
            meta["ownerReferences"] = [owner_reference(above)]
        return self.api.server.create({"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": {}})

    async def read(self, obj: Json) -> Mapping[str, str]:
        return short(root_annotations(await self.reader.controllers("default", an_owner(obj))))


def short(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(BRIDGE_PREFIX): value for key, value in annotations.items()}


def an_owner(obj: Json, **changed: Any) -> OwnerReference:
    fields = {"api_version": obj["apiVersion"], "kind": obj["kind"]}
    return OwnerReference(**(fields | {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]} | changed))


@asynccontextmanager
async def a_bench() -> AsyncIterator[Bench]:
    async with fake_api(resources=(*BUILT_IN, JOBSETS, POOLS)) as api:
        yield Bench(api, OwnerReader(api.connection, rng=a_rng()))


async def test_a_deployment_is_found_through_its_replica_set() -> None:
    async with a_bench() as bench:
        deployment = bench.create("apps/v1", "Deployment", "d", which="deployment")
        replicas = bench.create("apps/v1", "ReplicaSet", "d-1", deployment, which="replicas")
        assert await bench.read(replicas) == {"which": "deployment"}


async def test_a_kind_that_the_site_installed_is_found() -> None:
    async with a_bench() as bench:
        job_set = bench.create("jobset.x-k8s.io/v1alpha2", "JobSet", "s", which="set")
        job = bench.create("batch/v1", "Job", "s-0", job_set)
        assert await bench.read(job) == {"which": "set"}


async def test_a_cluster_wide_owner_is_found() -> None:
    async with a_bench() as bench:
        pool = bench.create("example.org/v1", "Pool", "p", which="pool")
        assert await bench.read(pool) == {"which": "pool"}


async def test_an_owner_that_may_not_be_read_ends_the_way_at_the_last_readable_one() -> None:
    async with a_bench() as bench:
        cron = bench.create("batch/v1", "CronJob", "c", which="cron")
        job = bench.create("batch/v1", "Job", "c-1", cron, which="job")
        bench.api.server.allowed = lambda permission: permission.resource != "cronjobs"
        assert await bench.read(job) == {"which": "job"}


async def test_nothing_readable_is_nothing() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")
        bench.api.server.allowed = lambda permission: False
        assert await bench.read(job) == {}


async def test_an_owner_that_is_gone_or_of_no_known_kind_is_nothing() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j")
        assert root_annotations(await bench.reader.controllers("default", an_owner(job, name="other", uid="x"))) == {}
        assert root_annotations(await bench.reader.controllers("default", an_owner(job, kind="Unknown", uid="y"))) == {}
        gone = an_owner(job, api_version="gone.example.org/v1", uid="z")
        assert root_annotations(await bench.reader.controllers("default", gone)) == {}


async def test_an_owner_made_again_under_the_name_is_another() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")
        assert root_annotations(await bench.reader.controllers("default", an_owner(job, uid="older"))) == {}


async def test_a_loop_of_owners_ends() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")

        def own_itself(obj: Json) -> None:
            obj["metadata"]["ownerReferences"] = [owner_reference(job)]

        bench.api.server.change(ObjectKey(JOBS, "default", "j"), own_itself)
        assert await bench.read(job) == {"which": "job"}
        assert len(bench.api.server.requests) == 2


async def test_many_pods_of_one_owner_cost_one_request() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")
        answers = await asyncio.gather(*(bench.read(job) for _ in range(100)))
        assert answers == [{"which": "job"}] * 100
        assert [request.path for request in bench.api.server.requests] == [
            "/apis/batch/v1",
            "/apis/batch/v1/namespaces/default/jobs/j",
        ]


async def test_an_edited_annotation_is_seen_within_half_a_minute() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")
        await bench.read(job)
        key = ObjectKey(JOBS, "default", "j")
        edited = {f"{BRIDGE_PREFIX}which": "edited"}
        bench.api.server.change(key, lambda obj: obj["metadata"].update(annotations=edited))
        assert await bench.read(job) == {"which": "job"}
        await asyncio.sleep(31)
        assert await bench.read(job) == {"which": "edited"}


async def test_an_api_server_that_does_not_answer_is_a_port_error() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j")
        bench.api.refuse()
        with pytest.raises(PortError, match="Cannot connect"):
            await bench.read(job)


async def test_a_passing_fault_is_waited_out() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")
        bench.api.server.faults.add(KubeFault(code=503, times=2))
        assert await bench.read(job) == {"which": "job"}


@pytest.mark.parametrize("code", [400, 405, 406, 410, 422])
@pytest.mark.parametrize("path", ["/apis/batch/v1$", "jobs/j$"])
async def test_an_owner_that_the_api_server_will_never_show_is_nothing(code: int, path: str) -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")
        bench.api.server.faults.add(KubeFault(path=path, code=code, reason="", times=None))
        assert await bench.read(job) == {}


@pytest.mark.parametrize("code", [401, 429, 503])
async def test_what_may_pass_is_an_error(code: int) -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")
        bench.api.server.faults.add(KubeFault(path="jobs/j$", code=code, times=None))
        with pytest.raises(PortError):
            await bench.read(job)


async def test_a_reference_leads_nowhere_but_to_its_owner() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")
        for name in ("../jobs/j", "j?x=y", "j#", "%6a"):
            assert root_annotations(await bench.reader.controllers("default", an_owner(job, name=name))) == {}
        assert (
            root_annotations(await bench.reader.controllers("default", an_owner(job, api_version="batch/v1?x=y"))) == {}
        )


@pytest.mark.parametrize(
    "changed",
    [
        *({"name": name} for name in ("", ".", "..")),
        *(
            {"api_version": said}
            for said in ("../healthz", "..", ".", "x/..", "./v1", "batch/v1/jobs", "/v1", "v1/", "")
        ),
    ],
)
async def test_a_reference_that_leads_to_another_path_is_never_requested(changed: dict[str, str]) -> None:
    async with a_bench() as bench:
        owner = an_owner(bench.create("batch/v1", "Job", "j", which="job"), **changed)
        assert await bench.reader.controllers("default", owner) == (ControllerView(owner, read=False),)
        assert not bench.api.server.requests


@pytest.mark.parametrize("field", ["apiVersion", "kind", "name", "uid"])
async def test_a_reference_that_is_longer_than_any_of_kubernetes_is_kept_short_and_never_requested(field: str) -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")
        reference = owner_reference(job)
        reference[field] += "j" * 900_000
        owner = read_pod({"metadata": {"uid": "u", "ownerReferences": [reference]}}).owner
        assert owner is not None
        assert max(map(len, (owner.api_version, owner.kind, owner.name, owner.uid))) <= LONGEST_OWNER
        assert await bench.reader.controllers("default", owner) == (ControllerView(owner, read=False),)
        assert not bench.api.server.requests


async def test_an_owner_with_the_longest_name_that_kubernetes_allows_is_read() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j" * 253, which="job")
        owner = read_pod({"metadata": {"uid": "u", "ownerReferences": [owner_reference(job)]}}).owner
        assert owner == an_owner(job)
        assert await bench.read(job) == {"which": "job"}


async def test_a_false_reference_with_the_uid_of_another_owner_changes_nothing_for_that_one() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")
        assert root_annotations(await bench.reader.controllers("other", an_owner(job, name="no-such"))) == {}
        assert await bench.read(job) == {"which": "job"}
        assert root_annotations(await bench.reader.controllers("other", an_owner(job))) == {}


async def test_versions_that_do_not_exist_are_not_remembered_indefinitely() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "j", which="job")
        for number in range(400):
            root_annotations(await bench.reader.controllers("default", an_owner(job, api_version=f"made.up/v{number}")))
        assert bench.reader.remembered <= 256
        assert await bench.read(job) == {"which": "job"}


async def test_of_an_owner_no_more_is_kept_than_is_read() -> None:
    async with a_bench() as bench:
        large = bench.create("batch/v1", "Job", "j", which="set", other="v" * 100_000)
        key = ObjectKey(JOBS, "default", "j")
        bench.api.server.change(key, lambda obj: obj["metadata"]["annotations"].update({"a.example/k": "v" * 100_000}))
        found = await bench.read(large)
        assert found["which"] == "set"
        assert set(found) == {"which", "other"}
        assert len(found["other"]) < 10_000


async def test_an_answer_that_is_cut_off_is_not_taken_for_an_owner_that_says_nothing() -> None:
    async with a_bench() as bench:
        job = bench.create("batch/v1", "Job", "train", account="lab")
        bench.api.server.faults.add(KubeFault("GET", "/jobs/train$", garbage=True, times=1))
        with pytest.raises(PortError, match="/jobs/train"):
            await bench.read(job)
        assert await bench.read(job) == {"account": "lab"}


async def test_an_api_that_does_not_answer_costs_its_time_once_however_many_owners_are_named() -> None:
    async with a_bench() as bench:
        owners = [an_owner(bench.create("jobset.x-k8s.io/v1alpha2", "JobSet", f"sweep-{n}")) for n in range(100)]
        web = bench.create("apps/v1", "Deployment", "web", account="phys")
        bench.api.server.faults.add(KubeFault("GET", "jobset", code=503, times=None))
        began = asyncio.get_running_loop().time()
        reads = (bench.reader.controllers("default", owner) for owner in owners)
        found = await asyncio.gather(*reads, return_exceptions=True)
        assert all(isinstance(one, PortError) for one in found)
        with pytest.raises(PortError, match="503"):
            await bench.reader.controllers("default", owners[0])
        assert asyncio.get_running_loop().time() - began <= 10.0
        assert await bench.read(web) == {"account": "phys"}
        bench.api.server.faults.clear()
        await asyncio.sleep(5.1)
        assert len(await bench.reader.controllers("default", owners[0])) == 1
        assert len(await bench.reader.controllers("default", owners[1])) == 1


async def failure(bench: Bench, owner: OwnerReference) -> str:
    try:
        await bench.reader.controllers("default", owner)
    except PortError as error:
        return str(error)
    return ""


async def test_an_owner_that_alone_cannot_be_read_keeps_no_other_of_its_api_version_waiting() -> None:
    async with a_bench() as bench:
        bad, good = (bench.create("batch/v1", "Job", name, which=name) for name in ("bad", "good"))
        bench.api.server.faults.add(KubeFault("GET", "jobs/bad$", code=500, times=None))
        for _ in range(20):
            assert "500" in await failure(bench, an_owner(bad))
            began = asyncio.get_running_loop().time()
            assert await bench.read(good) == {"which": "good"}
            assert asyncio.get_running_loop().time() - began < 1.0
            await asyncio.sleep(31)


async def test_an_owner_that_alone_cannot_be_read_is_requested_again_only_after_a_while() -> None:
    async with a_bench() as bench:
        bad = bench.create("batch/v1", "Job", "bad", which="bad")
        bench.api.server.faults.add(KubeFault("GET", "jobs/bad$", code=500, times=None))
        assert "500" in await failure(bench, an_owner(bad))
        sent = len(bench.api.server.requests)
        assert "500" in await failure(bench, an_owner(bad))
        assert len(bench.api.server.requests) == sent
        bench.api.server.faults.clear()
        await asyncio.sleep(5.1)
        assert await bench.read(bad) == {"which": "bad"}


async def test_an_api_that_leaves_while_its_kinds_are_remembered_costs_its_time_twice_however_many_owners() -> None:
    async with a_bench() as bench:
        first, *others = (an_owner(bench.create("batch/v1", "Job", f"j{number}")) for number in range(50))
        assert not await failure(bench, first)
        bench.api.server.faults.add(KubeFault("GET", "batch", code=503, times=None))
        began = asyncio.get_running_loop().time()
        for owner in others:
            assert "503" in await failure(bench, owner)
        assert asyncio.get_running_loop().time() - began <= 20.0


async def test_an_api_version_is_requested_at_once_after_an_answer_that_left_it_open() -> None:
    async with a_bench() as bench:
        job = an_owner(bench.create("batch/v1", "Job", "j"))
        for code in (503, 401):
            bench.api.server.faults.clear()
            bench.api.server.faults.add(KubeFault("GET", "batch", code=code, times=None))
            assert str(code) in await failure(bench, job)
            await asyncio.sleep(5.1)
        bench.api.server.faults.clear()
        assert not await failure(bench, job)
