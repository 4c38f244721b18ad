"""Ten thousand waiting Pods, as many jobs of others, thousands of nodes: answers, memory, start, steps of the loop."""

from __future__ import annotations

import asyncio
import json
import statistics
from typing import Any

import aiohttp

from bench.figures import summary
from bench.simulated.crowd import ALLOCATION, PARTITION
from bench.simulated.stage import Stage, staged
from lab.clock import elapsed

Json = dict[str, Any]
CALLS_PER_S = 50
SETTLED_S = 10.0
UNSURE = 'placeholders{state="UNSURE"}'


async def measure_crowded(nodes: int, foreign: int, waiting: int, seconds: float) -> Json:
    """The first life submits all; the second one is measured: it finds everything as it is."""
    async with staged(nodes, foreign, waiting, running=1) as stage:
        await stage.start()
        stage.populate()
        await stage.jobs(foreign + waiting + 1)
        await asyncio.sleep(SETTLED_S)
        await stage.stop()
        began = elapsed()
        ready = await stage.start(timed=True)
        starting = await stage.longest_steps()
        await stage.until(lambda: not stage.metric(UNSURE), "every Pod is taken up")
        taken_up = elapsed() - began
        await asyncio.sleep(SETTLED_S)
        after = await stage.longest_steps()
        before, counted = stage.cpu_s, stage.filters()
        answers = await _send_queries(stage, nodes, seconds)
        within = stage.filters() - counted
        cpu = stage.cpu_s - before
        under_calls = await stage.longest_steps()
        return {
            "what": f"{waiting} Pods and {foreign} jobs of others wait on {nodes} nodes",
            "ready_s": ready,
            "taken_up_s": taken_up,
            "filter_s": summary([answers]),
            "served_p99_s": min(bound for bound, count in within.items() if count >= 0.99 * len(answers)),
            "cpu_share": cpu / seconds,
            "rss_mb": stage.rss_mb,
            "steps_ms": {"start": starting[:3], "after": after[:3], "calls": under_calls[:3]},
            "longest_step_ms": max(one[0]["ms"] for one in (starting, after, under_calls)),
        }


async def _send_queries(stage: Stage, nodes: int, seconds: float) -> list[float]:
    """Seconds of each `/filter` with the names of all nodes, for waiting Pods in turn; from the time of its turn."""
    listed = json.loads(
        (await stage.kube.request("GET", "/api/v1/namespaces/default/pods", query={"limit": "200"})).body
    )
    names = [f"node-{number:04d}" for number in range(nodes)]
    pods = [pod for pod in listed["items"] if pod["metadata"]["name"].startswith("waits-")]
    bodies = [json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode() for pod in pods]
    url = f"http://127.0.0.1:{stage.addresses.scheduling}/scheduler/filter"
    headers = {"Content-Type": "application/json"}
    seconds_each: list[float] = []
    async with aiohttp.ClientSession() as session:

        async def send(body: bytes) -> None:
            began = elapsed()
            async with session.post(url, data=body, headers=headers) as answer:
                said = json.loads(await answer.read())
            if said.get("Error") or said.get("NodeNames"):
                raise RuntimeError(f"/filter for a Pod that waits: {answer.status} {str(said)[:500]}")
            seconds_each.append(elapsed() - began)

        began = elapsed()
        async with asyncio.TaskGroup() as group:
            for number in range(int(seconds * CALLS_PER_S)):
                await asyncio.sleep(max(0.0, began + number / CALLS_PER_S - elapsed()))
                group.create_task(send(bodies[number % len(bodies)]))
    return seconds_each


async def measure_flat(sizes: tuple[int, ...], base: int, placed: int, rounds: int) -> Json:
    """CPU of the extender for each Pod that is placed at once, less what the same time costs without any."""
    points = []
    for size in sizes:
        crowd = base * size
        async with staged(10 * crowd, crowd, crowd, crowd) as stage:
            began = elapsed()
            await stage.start()
            stage.populate()
            await stage.jobs(3 * crowd)
            await stage.stop()
            await stage.start()
            first_sync = stage.cpu_s
            await stage.until(lambda: not stage.metric(UNSURE), "every Pod is taken up")
            await asyncio.sleep(SETTLED_S)
            idle_share, each = [], []
            for _ in range(rounds):
                before, since = stage.cpu_s, elapsed()
                await asyncio.sleep(SETTLED_S / 2)
                idle_share.append((stage.cpu_s - before) / (elapsed() - since))
                each.append(await _placed_ms(stage, placed, idle_share[-1]))
            points.append(
                {
                    "times": size,
                    "waiting": crowd,
                    "running": crowd,
                    "nodes": 10 * crowd,
                    "cpu_ms_per_pod": statistics.median(each),
                    "rounds": each,
                    "idle_cpu_share": statistics.median(idle_share),
                    "first_sync_cpu_s": first_sync,
                    "took_s": elapsed() - began,
                }
            )
    costs = [float(point["cpu_ms_per_pod"]) for point in points]  # type: ignore[arg-type]
    return {"points": points, "most_to_least": max(costs) / min(costs)}


async def _placed_ms(stage: Stage, count: int, idle_share: float) -> float:
    settings = ALLOCATION | {PARTITION: "free"}
    before, since = stage.cpu_s, elapsed()
    names = await stage.load.burst(count, "slurm", settings, gated=True)
    await asyncio.wait_for(asyncio.gather(*(stage.load.lives[name].bound for name in names)), 300)
    await asyncio.sleep(2)
    spent = stage.cpu_s - before - idle_share * (elapsed() - since)
    await stage.load.clear()
    await asyncio.sleep(2)
    return 1000 * spent / count
