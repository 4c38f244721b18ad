"""A bookmark says that everything up to its version was told, and nothing less."""

from __future__ import annotations

import asyncio

import pytest

from extender.kube.reflector import Reflector
from extender.kube.store import NodeStore
from extender.sim.kube.app import BOOKMARK_EVERY_S
from extender.sim.kube.resources import NODES
from extender.sim.kube.storage import ObjectKey
from extender.wire.stream import NODE
from tests.builders.fake_api import a_rng, fake_api, running

pytestmark = pytest.mark.looptime


async def test_a_change_in_the_instant_of_a_bookmark_is_told_before_it() -> None:
    async with fake_api() as api:
        api.server.add_node("n1")
        nodes = NodeStore()
        async with running(Reflector(api.connection, "/api/v1/nodes", NODE, nodes, rng=a_rng()).run()):
            await nodes.wait_synced()
            for number in range(3):
                await asyncio.sleep(BOOKMARK_EVERY_S if not number else BOOKMARK_EVERY_S - 1)
                label = {"round": str(number)}
                api.server.change(
                    ObjectKey(NODES, "", "n1"), lambda one, new=label: one["metadata"]["labels"].update(new)
                )  # type: ignore[misc]
                await asyncio.sleep(1)
                seen = nodes.named("n1")
                assert seen is not None
                assert seen.labels["round"] == str(number)
