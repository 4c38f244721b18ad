"""A bookmark says that everything up to its version was told, and nothing less."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from extender.kube.reflector import Reflector
from extender.kube.store import NodeStore
from extender.kube.wire.stream import NODE
from simulator.kube.app import BOOKMARK_EVERY_S
from simulator.kube.objects import Json
from simulator.kube.resources import NODES
from simulator.kube.storage import ObjectKey
from tests.builders.fake_api import a_rng, fake_api, running

pytestmark = pytest.mark.looptime


def relabel(said: str, node: Json) -> None:
    node["metadata"]["labels"]["round"] = said


async def test_a_change_in_the_instant_of_a_bookmark_is_reported_before_it() -> None:
    async with fake_api() as api:
        api.server.add_node("n1")
        nodes = NodeStore()
        async with running(Reflector(api.connection, "/api/v1/nodes", NODE, nodes, rng=a_rng()).run()):
            await nodes.wait_synced()
            for number in range(3):
                await asyncio.sleep(BOOKMARK_EVERY_S if not number else BOOKMARK_EVERY_S - 1)
                said = str(number)
                api.server.change(ObjectKey(NODES, "", "n1"), partial(relabel, said))
                await asyncio.sleep(1)
                seen = nodes.named("n1")
                assert seen is not None
                assert seen.labels["round"] == said
