"""A reflector that keeps a mirror of a fake API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from extender.domain.views import PodView
from extender.kube.reflector import Reflector
from extender.kube.wire.stream import POD, UnreadableItem
from simulator.kube.pods import pod_key
from simulator.kube.server import ApiRequest
from tests.builders.fake_api import FakeApi, a_rng, fake_api, running

PATH = "/api/v1/pods"


@dataclass
class Mirror:
    """Keep what a reflector reports."""

    pods: dict[str, PodView] = field(default_factory=dict)
    lists: int = 0
    unreadable: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)

    def replaced(self, views: Sequence[PodView], unreadable: Sequence[UnreadableItem]) -> None:
        self.lists += 1
        self.pods = {view.uid: view for view in views}
        self.unreadable = [item.identity.name for item in unreadable]

    def changed(self, view: PodView) -> None:
        self.changes.append(f"{view.name} is {view.phase}")
        self.pods[view.uid] = view

    def removed(self, uid: str, last: PodView | None) -> None:
        if (known := self.pods.pop(uid, None)) is not None:
            self.changes.append(f"{known.name} is gone")

    @property
    def names(self) -> list[str]:
        return sorted(view.name for view in self.pods.values())


@dataclass
class Bench:
    """A reflector that runs against a fake API server."""

    api: FakeApi
    reflector: Reflector[PodView]
    mirror: Mirror

    @property
    def requests(self) -> list[ApiRequest]:
        return list(self.api.server.requests)

    @property
    def lists(self) -> list[ApiRequest]:
        return [request for request in self.requests if not request.watch]

    @property
    def watches(self) -> list[ApiRequest]:
        return [request for request in self.requests if request.watch]

    def start_pod(self, name: str, phase: str = "Running") -> None:
        """Change a Pod's phase, as its kubelet does."""
        self.api.server.change(pod_key("default", name), lambda pod: pod["status"].update(phase=phase))

    async def until_watching(self) -> None:
        await self.api.app.watched.wait()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def a_bench(pods: int = 0) -> AsyncIterator[Bench]:
    async with fake_api() as api:
        for number in range(pods):
            api.server.add_pod(f"p{number:04}")
        mirror = Mirror()
        reflector = Reflector(api.connection, PATH, POD, mirror, rng=a_rng())
        async with running(reflector.run()):
            yield Bench(api, reflector, mirror)
