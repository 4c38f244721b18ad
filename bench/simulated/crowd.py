"""`python -m bench.simulated.crowd NODES FOREIGN WAITING RUNNING`: the other process, both simulators on sockets.

It prints one line of JSON when it serves: both addresses. Of its standard input the first line is the extender's
`urlPrefix`; with the second the Pods come, and it ends when that is closed. Nodes are 10 kB, Pods 5 kB; some Node and
one bound Pod change all the time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack

from bench.real.fleet import NODE_BYTES, PADDING, POD_BYTES
from bench.simulated.slurm import FREE, FULL, CrowdedController, CrowdedSlurmrestd
from extender.domain.wellknown import GATE
from simulator.cluster import in_background
from simulator.kube.app import ApiServerApp
from simulator.kube.kubelet import Kubelets
from simulator.kube.objects import Json
from simulator.kube.resources import NODES, PODS
from simulator.kube.scheduler import SimScheduler
from simulator.kube.server import FakeApiServer
from simulator.kube.storage import ObjectKey
from simulator.network.asgi_server import serve_on_loopback
from simulator.slurm.records import SimNode

PARTITION = "slurm-extender.io/partition"
ALLOCATION = {"slurm-extender.io/mode": "allocation"}
"""Every Pod names its mode: which one `auto` stands for depends on the release and on the fences of a site."""

LOAD = "load"
"""The namespace of those that a measurement makes."""

BEATS_PER_S = 17.0
"""Words of kubelets of 5,000 nodes, one each in five minutes (`nodeStatusReportFrequency`)."""

COMING_PER_S, AT_ONCE = 500, 20
"""Pods a second, so many in a row."""

START_S = STOP_S = 0.2


def _pad(obj: Json, size: int) -> None:
    obj["metadata"].setdefault("annotations", {})[PADDING] = "x" * size


def build(kube: FakeApiServer, names: list[str]) -> None:
    """Nodes, and all that comes is as large as real ones."""
    kube.mutate = lambda obj: _pad(obj, NODE_BYTES if obj["kind"] == "Node" else POD_BYTES)
    for name in names:
        kube.add_node(name)
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LOAD}})


def slurm_nodes(names: list[str]) -> list[SimNode]:
    """Return the nodes of the simulated Slurm. All have a slurmd: mode allocation uses no external node."""
    return [SimNode(name, cpus=64) for name in names]


async def populate(kube: FakeApiServer, waiting: int, running: int) -> None:
    """Pods that will run, and Pods that will wait; as fast as they are heard of."""
    for number in range(running + waiting):
        if number < running:
            kube.add_pod(f"runs-{number}", gates=(GATE,), annotations=ALLOCATION | {PARTITION: FREE})
        else:
            kube.add_pod(f"waits-{number - running}", gates=(GATE,), annotations=ALLOCATION | {PARTITION: FULL})
        if number % AT_ONCE == 0:
            await asyncio.sleep(AT_ONCE / COMING_PER_S)


async def beat(kube: FakeApiServer, names: list[str]) -> None:
    """Kubelets say something of their Nodes, one after the other; each second the status of a bound Pod changes."""
    for number in range(sys.maxsize):
        key = ObjectKey(NODES, "", names[number % len(names)])
        kube.change(key, lambda obj: obj["status"].update(beat=str(time.time())))  # noqa: TID251 - real time
        bound = kube.pod("runs-0") if number % int(BEATS_PER_S) == 0 else None
        if bound is not None:
            kube.change(ObjectKey(PODS, "default", "runs-0"), lambda obj: obj["status"].update(beat=str(time.time())))  # noqa: TID251
        await asyncio.sleep(1 / BEATS_PER_S)


async def serve(nodes: int, foreign: int, waiting: int, running: int) -> None:
    """Until standard input ends."""
    loop = asyncio.get_running_loop()
    kube = FakeApiServer(time.time)  # noqa: TID251 - a process beside real ones
    names = [f"node-{number:04d}" for number in range(nodes)]
    build(kube, names)
    controller = CrowdedController(slurm_nodes(names), time.time() - loop.time())  # noqa: TID251
    controller.foreign(foreign)
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(serve_on_loopback(ApiServerApp(kube)))
        restd = await stack.enter_async_context(serve_on_loopback(CrowdedSlurmrestd(controller)))
        print(json.dumps({"kube": f"http://127.0.0.1:{api}", "slurm": f"http://127.0.0.1:{restd}"}), flush=True)
        url = (await asyncio.to_thread(sys.stdin.readline)).strip()
        kubelets = Kubelets(kube, start_s=START_S, stop_s=STOP_S)
        await stack.enter_async_context(in_background(kubelets.run()))
        await stack.enter_async_context(in_background(SimScheduler(kube, None, url).run()))
        await stack.enter_async_context(in_background(beat(kube, names)))
        await asyncio.to_thread(sys.stdin.readline)
        await populate(kube, waiting, running)
        await asyncio.to_thread(sys.stdin.read)
    await controller.aclose()


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
