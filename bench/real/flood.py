"""Flood the API server with Pods of one namespace, as its tenant, from a process of its own.

`python -m bench.real.flood KUBECONFIG NAMESPACE` watches the Pods of NAMESPACE alone. It reads one command a line and
answers each with one line of JSON: `attack SCHEDULER` begins a flood of Pods of that scheduler name, `halt` ends it and
answers with its counts, `clear` deletes all Pods and answers with the nodes that they were bound to. It ends with its
input. Nothing limits its requests on the side of the client, as a client of any tenant may do without limits: a
throttled request counts as such, and the flood goes on.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from bench.real.fleet import ALONE, JOB_NAME, MODE, NARROW, NARROW_NODES, OURS, PARTITION
from bench.real.jobs import together
from bench.real.load import CREATING, Load, load
from extender.kube.errors import ApiError, Throttled
from lab.clock import elapsed
from lab.pods import required_affinity

FLOOD = 240
"""Pods that the adversary creates at once."""

KEYS = 10_000
HUGE_EVERY = 20
"""One of so many Pods of the adversary has `KEYS` annotations."""

FLAPPERS, FLAPS_PER_S, CHURN_PER_S = 5, 10, 10
"""Attackers that change annotations; changed annotations, and Pods created and deleted, by each attacker a second."""

HUGE = {f"a{number}.example/k": "v" for number in range(KEYS)}

HOSTILE: Mapping[str, tuple[Mapping[str, str], Mapping[str, Any]]] = {
    OURS: ({MODE: "external", PARTITION: NARROW}, {}),
    ALONE: ({}, {"affinity": required_affinity("kubernetes.io/hostname", NARROW_NODES)}),
}
"""Annotations and further fields of the Pods of each scheduler.

The adversary has nodes of its own under either, of the same size: there is always room for the other namespace.
"""


@dataclass(slots=True)
class Attack:
    """Requests of the adversary that the API server carried out, and those that it did not."""

    created: int = 0
    flapped: int = 0
    deleted: int = 0
    forced: int = 0
    throttled: int = 0
    """Answered with 429."""

    failed: int = 0
    """Refused otherwise, as for a Pod that is gone by then, or not answered."""

    seconds: float = 0.0

    def counts(self) -> dict[str, float]:
        """Return everything by name, with the number of all requests."""
        told = asdict(self)
        return told | {"requests": sum(told.values()) - self.seconds}


class Flooder:
    """Attack with the Pods of one namespace."""

    def __init__(self, hostile: Load) -> None:
        self._hostile = hostile
        self._attack = Attack()
        self._began = 0.0
        self._attacking: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def attack(self, scheduler: str) -> dict[str, Any]:
        """Begin a flood that goes on until `halt`."""
        self._attack, self._began = Attack(), elapsed()
        self._hostile.nodes.clear()
        self._attacking = asyncio.create_task(self._flood(scheduler))
        return {}

    async def halt(self) -> dict[str, Any]:
        """End the flood and return its counts. Raise what ended it before.

        Requests under way are waited for: a Pod that is created after `clear` would stay.
        """
        attacking, self._attacking = self._attacking, None
        if attacking is not None:
            attacking.cancel()
            await asyncio.wait([attacking])
        self._attack.seconds = elapsed() - self._began
        if self._under_way:
            await asyncio.wait(self._under_way)
        if attacking is not None and not attacking.cancelled():
            attacking.result()
        return self._attack.counts()

    async def clear(self) -> dict[str, Any]:
        """Delete every Pod; return the nodes of the last flood."""
        self._hostile.patient = True
        try:
            await self._hostile.clear()
        finally:
            self._hostile.patient = False
        return {"nodes": sorted(self._hostile.nodes)}

    async def _flood(self, scheduler: str) -> None:
        async with asyncio.TaskGroup() as group:
            for attacker in (
                self._burst(scheduler),
                *(self._flap() for _ in range(FLAPPERS)),
                self._create(scheduler),
                self._delete(),
            ):
                group.create_task(attacker)

    async def _burst(self, scheduler: str) -> None:
        """Create many Pods at once, some of them as large as the API server allows."""
        await together(
            [partial(self._one, scheduler, huge=number % HUGE_EVERY == 0) for number in range(FLOOD)], CREATING
        )

    async def _one(self, scheduler: str, *, huge: bool) -> None:
        annotations, spec = HOSTILE[scheduler]
        settings = {**annotations, **(HUGE if huge else {})}
        await self._send("created", self._hostile.create(scheduler, settings, gated=scheduler == OURS, spec=spec))

    async def _create(self, scheduler: str) -> None:
        while True:
            await self._one(scheduler, huge=random.randrange(HUGE_EVERY) == 0)
            await asyncio.sleep(1 / CHURN_PER_S)

    async def _flap(self) -> None:
        """Change the name of the job of a Pod again and again: each change is translated, and may update a job."""
        while True:
            if living := self._living():
                change = {JOB_NAME: f"flap-{self._attack.flapped}"}
                await self._send("flapped", self._hostile.annotate(random.choice(living), change))
            await asyncio.sleep(1 / FLAPS_PER_S)

    async def _delete(self) -> None:
        """Delete with grace 0 a placed Pod and with its grace another one, in turn."""
        while True:
            if placed := [name for name in self._living() if self._hostile.lives[name].bound.done()]:
                await self._send("forced", self._hostile.delete(random.choice(placed), grace_s=0))
            if living := self._living():
                await self._send("deleted", self._hostile.delete(random.choice(living)))
            await asyncio.sleep(2 / CHURN_PER_S)

    async def _send(self, count: str, request: Awaitable[object]) -> None:
        """Send a request, which goes on when the flood ends meanwhile."""
        task = asyncio.create_task(self._counted(count, request))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        await asyncio.shield(task)

    async def _counted(self, count: str, request: Awaitable[object]) -> None:
        try:
            await request
        except Throttled:
            count = "throttled"
        except ApiError:
            count = "failed"
        setattr(self._attack, count, getattr(self._attack, count) + 1)

    def _living(self) -> list[str]:
        return [name for name, life in self._hostile.lives.items() if life.seen and not life.ending.done()]


async def obey(
    flooder: Flooder, read: Callable[[], Awaitable[bytes]], answer: Callable[[dict[str, Any]], None]
) -> None:
    """Carry out commands until there are none. Raise KeyError for an unknown one."""
    while line := await read():
        command, _, scheduler = line.decode().strip().partition(" ")
        if command == "attack":
            answer(await flooder.attack(scheduler))
        else:
            answer(await {"halt": flooder.halt, "clear": flooder.clear}[command]())
    await flooder.halt()


async def serve(kubeconfig: str, namespace: str) -> None:
    """Obey the commands of standard input."""
    async with load(kubeconfig, namespace) as hostile:
        hostile.request_s = 30.0
        commands = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(commands), sys.stdin.buffer
        )
        _answer({"ready": namespace})
        await obey(Flooder(hostile), commands.readline, _answer)


def _answer(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
