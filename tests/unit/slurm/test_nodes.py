"""Nodes and partitions as the rules see them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from extender.domain.nodes.drain_reasons import earlier_reason
from extender.domain.ports import PortError
from extender.slurm.nodes import CONF_EVERY, SlurmrestdNodes
from simulator.slurm.faults import SlurmFault
from slurmclient import Node, NodeState
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import sim_site

pytestmark = pytest.mark.looptime


async def test_slurms_own_word_for_the_default_partition_counts() -> None:
    async with sim_site("26.05.5") as site, site.client() as client:
        snapshot = await SlurmrestdNodes(client, LoopClock(), default_partition="high").snapshot()
        assert snapshot.partition_names("") == ("batch",)


async def test_where_slurm_does_not_say_the_site_does() -> None:
    async with sim_site("24.11.5") as site, site.client() as client:
        snapshot = await SlurmrestdNodes(client, LoopClock(), default_partition="high").snapshot()
        assert snapshot.partition_names("") == ("high",)
        assert (await SlurmrestdNodes(client, LoopClock()).snapshot()).partition_names("") == ()


async def test_an_only_partition_is_the_default() -> None:
    async with sim_site("24.11.5") as site, site.client() as client:
        for name in ("high", "low", "short"):
            del site.sim.controller.partitions[name]
        assert (await SlurmrestdNodes(client, LoopClock()).snapshot()).partition_names("") == ("batch",)


async def test_a_preempt_mode_that_slurm_does_not_show_is_not_taken_for_off() -> None:
    for release, shown in (("24.11.5", "UNKNOWN"), ("26.05.5", "CANCEL")):
        async with sim_site(release) as site, site.client() as client:
            assert (await SlurmrestdNodes(client, LoopClock()).snapshot()).partitions["low"].preempt_mode == shown


async def test_gang_is_a_word_of_the_whole_cluster_that_no_partition_shows() -> None:
    async with sim_site("26.05.5") as site, site.client() as client:
        site.sim.controller.config = replace(site.sim.controller.config, preempt_mode=("SUSPEND", "GANG"))
        site.sim.controller.partitions["high"].preempt_mode = "CLUSTER_GLOBAL"
        site.sim.controller.partitions["short"].preempt_mode = "OFF"
        nodes = SlurmrestdNodes(client, LoopClock())
        found = (await nodes.snapshot()).partitions
        modes = {name: found[name].preempt_mode for name in ("low", "high", "short")}
        assert modes == {"low": "CANCEL,GANG", "high": "GANG,SUSPEND", "short": "OFF"}


async def test_that_slurm_preempts_by_qos_is_known_where_it_shows_its_slurm_conf() -> None:
    for kind, by_qos in (("preempt/partition_prio", False), ("preempt/qos", True)):
        async with sim_site("26.05.5") as site, site.client() as client:
            site.sim.controller.config = replace(site.sim.controller.config, preempt_type=kind)
            assert (await SlurmrestdNodes(client, LoopClock()).snapshot()).features.qos_preempts is by_qos


async def test_slurm_conf_is_read_now_and_then_and_is_as_it_was_where_it_cannot_be() -> None:
    async with sim_site("26.05.5") as site, site.client() as client:
        site.sim.controller.config = replace(site.sim.controller.config, preempt_mode=("GANG",))
        nodes = SlurmrestdNodes(client, LoopClock())
        await nodes.snapshot()
        site.sim.restd.faults.add(SlurmFault.REFUSE, "GET", "/conf")
        await asyncio.sleep(CONF_EVERY)
        assert (await nodes.snapshot()).partitions["low"].preempt_mode == "CANCEL,GANG"
        site.sim.restd.faults.clear()
        site.sim.controller.config = replace(site.sim.controller.config, preempt_mode=("CANCEL",))
        assert (await nodes.snapshot()).partitions["low"].preempt_mode == "CANCEL"
        site.sim.controller.config = replace(site.sim.controller.config, preempt_mode=("GANG",))
        assert (await nodes.snapshot()).partitions["low"].preempt_mode == "CANCEL", "it was read again at once"


@pytest.mark.parametrize("reason", ["Epilog error", "bad DIMM"])
async def test_a_drain_of_others_is_neither_lifted_nor_overwritten(reason: str) -> None:
    async with sim_site("26.05.5") as site, site.client() as client:
        site.drain("node-1", reason)
        with pytest.raises(PortError, match=reason):
            await SlurmrestdNodes(client, LoopClock()).drain("node-1", "a Pod may still run there")
        with pytest.raises(PortError, match=reason):
            await SlurmrestdNodes(client, LoopClock()).resume("node-1")
        node = site.sim.controller.nodes["node-1"]
        assert (node.drained, node.reason) == (True, reason)


@pytest.mark.parametrize("release", ["24.11.5", "26.05.5"])
async def test_the_reason_of_a_fail_of_another_is_not_overwritten(release: str) -> None:
    async with sim_site(release) as site, site.client() as client:
        nodes = SlurmrestdNodes(client, LoopClock())
        site.sim.controller.fail("node-1", "bad fan")
        assert (await nodes.node("node-1")).drained
        with pytest.raises(PortError, match="FAIL for 'bad fan'"):
            await nodes.drain("node-1", "a Pod may still run there")
        await nodes.resume("node-1")
        node = site.sim.controller.nodes["node-1"]
        assert (node.drained, node.failing, node.reason) == (False, True, "bad fan")


async def test_a_fail_with_the_extenders_words_is_no_drain_and_is_left_as_it_is() -> None:
    async with sim_site("26.05.5") as site, site.client() as client:
        nodes = SlurmrestdNodes(client, LoopClock())
        site.sim.controller.fail("node-1", "slurm-extender: a Pod may still run there")
        assert not (await nodes.node("node-1")).drained
        await nodes.resume("node-1")
        assert site.sim.controller.nodes["node-1"].failing


async def test_a_drain_outlives_a_node_that_goes_down_and_its_end_does_not_bring_it_back() -> None:
    async with sim_site("26.05.5") as site, site.client() as client:
        nodes = SlurmrestdNodes(client, LoopClock())
        site.set_down("node-1")
        await nodes.drain("node-1", "a Pod may still run there")
        await nodes.resume("node-1")
        node = (await nodes.snapshot()).nodes["node-1"]
        assert (node.state, "DRAIN" in node.flags) == ("DOWN", False)


@pytest.mark.parametrize(("age_s", "kept"), [(2.0, "looked at"), (3_600.0, "")], ids=["set just now", "an old text"])
async def test_the_reason_of_a_down_node_that_slurm_still_shows_as_mixed_is_kept(
    monkeypatch: pytest.MonkeyPatch, age_s: float, kept: str
) -> None:
    clock = LoopClock()
    async with sim_site("26.05.5") as site, site.client() as client:
        site.set_down("node-1")
        set_at = int(clock.wall() - age_s)
        down = await client.node("node-1")
        mixed = replace(down, state=NodeState.MIXED, reason="", latest_reason="looked at", latest_reason_time=set_at)

        async def read(_name: str) -> Node:
            return mixed

        with monkeypatch.context() as patched:
            patched.setattr(client, "node", read)
            await SlurmrestdNodes(client, clock).drain("node-1", "a Pod may still run there")
        reason = site.sim.controller.nodes["node-1"].reason
        assert reason.startswith("slurm-extender: a Pod may still run there")
        assert earlier_reason(reason) == kept

        drained = await client.node("node-1")
        mixed = replace(drained, state=NodeState.MIXED)
        with monkeypatch.context() as patched:
            patched.setattr(client, "node", read)
            await SlurmrestdNodes(client, clock).resume("node-1")
        node = site.sim.controller.nodes["node-1"]
        assert (node.down, node.drained, earlier_reason(node.reason)) == (True, False, kept)


async def test_a_snapshot_is_whole_or_not_at_all() -> None:
    async with sim_site("26.05.5") as site, site.client() as client:
        site.sim.restd.faults.add(SlurmFault.UNAVAILABLE, "GET", "/partitions")
        with pytest.raises(PortError, match="partitions"):
            await SlurmrestdNodes(client, LoopClock()).snapshot()
