"""One face for the simulator's kubelets and a real one, so that both can be asked the same questions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from extender.kube.connection import ApiConnection
from lab.kubelet_site import KubeletSite
from lab.pods import container
from simulator.kube.kubelet import FAIL_AFTER, RUN_FOR, STOP_FOR, Kubelets
from simulator.kube.objects import Json
from tests.builders.fake_api import FakeApi, fake_api, running
from tests.builders.kube_sites import NODE, Caller, LabSite, SimSite, Site, lab_site

FOR_EVER = 3600
SILENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Describe the one container of a Pod: by itself, and after SIGTERM, when it exits with 143. In seconds."""

    run_for: int = FOR_EVER
    fails: bool = False
    stop_for: int = 1


class KubeletBed(Site, Protocol):
    """An API server with a Node whose kubelet can be stopped."""

    def spec(self, does: Behaviour) -> dict[str, Any]:
        """Return the fields of a Pod that behaves so."""
        ...

    async def stop_kubelet(self) -> None:
        """Stop the kubelet; containers go on."""
        ...

    async def start_kubelet(self) -> None:
        """Start it again."""
        ...


class SimBed(SimSite):
    """The simulator's kubelet."""

    def __init__(self, api: FakeApi, namespace: str, kubelets: Kubelets) -> None:
        super().__init__(api, namespace)
        self._kubelets = kubelets

    def spec(self, does: Behaviour) -> dict[str, Any]:
        """Return annotations."""
        ends = FAIL_AFTER if does.fails else RUN_FOR
        return {"annotations": {ends: str(does.run_for), STOP_FOR: str(does.stop_for)}}

    async def stop_kubelet(self) -> None:
        """Stop it."""
        self._kubelets.take_down(NODE)

    async def start_kubelet(self) -> None:
        """Start it again."""
        self._kubelets.bring_back(NODE)


class LabBed(LabSite):
    """A real kubelet with containers that are processes."""

    def __init__(self, connection: ApiConnection, namespace: str, lab: KubeletSite) -> None:
        super().__init__(connection, namespace, lab.kube)
        self._kubelet = lab.nodes[NODE].kubelet

    def spec(self, does: Behaviour) -> dict[str, Any]:
        """Return a container with a script. The shell runs its trap once the `sleep` in front of it has ended."""
        turns = 10 * does.run_for
        script = (
            f'trap "sleep {does.stop_for}; exit 143" TERM; '
            f"n=0; while [ $n -lt {turns} ]; do sleep 0.1; n=$((n+1)); done; exit {int(does.fails)}"
        )
        return {"spec_more": {"containers": [container(script, cpus="100m", memory="64Mi")], "restartPolicy": "Never"}}

    async def stop_kubelet(self) -> None:
        """Stop it."""
        await asyncio.to_thread(self._kubelet.stop)

    async def start_kubelet(self) -> None:
        """Start it again, and wait until it is healthy."""
        await asyncio.to_thread(self._kubelet.start)


async def started(bed: KubeletBed, name: str, does: Behaviour, *, grace_s: int = 30) -> Caller:
    """Create a Pod on the Node, and wait until it runs."""
    caller = Caller(bed)
    await caller.running_pod(name, grace_s=grace_s, **bed.spec(does))
    return caller


async def versions(
    caller: Caller, name: str, act: Callable[[], Awaitable[object]], last: Callable[[str, Json], bool]
) -> list[tuple[str, Json]]:
    """Do something, and return every version of a Pod from then on, until the one of which `last` holds."""
    _, listed = await caller.call("GET", caller.pods)
    query = {"watch": "true", "timeoutSeconds": "300", "resourceVersion": listed["metadata"]["resourceVersion"]}
    found: list[tuple[str, Json]] = []
    async with caller.site.connection.watch(caller.pods, query, silence_s=SILENCE_S) as lines:
        await act()
        async for line in lines:
            event = json.loads(line)
            if event["object"]["metadata"].get("name") != name:
                continue
            found.append((event["type"], event["object"]))
            if last(*found[-1]):
                return found
    raise AssertionError(f"the watch of Pod {name} ended after {found}")


def state(pod: Json) -> Json:
    """Return the state of the one container of a Pod."""
    statuses = pod["status"].get("containerStatuses") or [{}]
    found: Json = statuses[0].get("state") or {}
    return found


def is_ready(pod: Json) -> bool:
    """Return whether the condition `Ready` is true."""
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions") or ())


@asynccontextmanager
async def sim_bed() -> AsyncIterator[KubeletBed]:
    """Start the simulator's kubelet."""
    async with fake_api() as api:
        api.server.add_node(NODE)
        api.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "contract"}})
        kubelets = Kubelets(api.server, start_s=0.1)
        async with running(kubelets.run()):
            yield SimBed(api, "contract", kubelets)


@asynccontextmanager
async def lab_bed(lab: KubeletSite, namespace: str) -> AsyncIterator[KubeletBed]:
    """Use the real kubelet; `namespace` is made for the test, and emptied of Pods after it."""
    async with lab_site(lab.kube, namespace) as site:
        yield LabBed(site.connection, namespace, lab)
