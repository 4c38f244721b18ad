"""Nodes that are made, changed and deleted while slurmctld runs, simulated and real."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain.nodes.external_nodes import DesiredNode
from extender.slurm.external_nodes import new_node
from slurmclient import (
    CapacityError,
    NewNode,
    NodeUpdate,
    NotFoundError,
    RefusedError,
    UnsupportedError,
)
from tests.builders.job_descriptions import one_cpu
from tests.builders.slurm_sites import NODES
from tests.contract.slurm.conftest import OpenSite

NAME = "ip-10-0-0-1.example.internal"
NODE = DesiredNode(
    NAME, NAME, "10.0.0.1", cpus=16, memory_mb=16_000, gres={"gpu:h100": 4, "gpu:1g.10gb": 2}, features=("a",)
)
OWNER = "01234567"
MARK = f"slurm-extender:{OWNER}:{NAME}"


async def test_a_node_is_what_was_requested_and_takes_external_jobs(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        if not (await slurm.negotiate()).new_node:
            with pytest.raises(UnsupportedError):
                await slurm.new_node(new_node(NODE, OWNER))
            return
        await slurm.new_node(new_node(NODE, OWNER))
        try:
            node = await slurm.node(NAME)
            assert (node.cpus, node.real_memory_mb, node.address) == (16, 16_000, "10.0.0.1")
            assert {(one.name, one.type, one.count) for one in node.gres} == {("gpu", "h100", 4), ("gpu", "1g.10gb", 2)}
            assert set(node.features) == {"a", MARK}
            assert "EXTERNAL" in node.flags
        finally:
            await slurm.delete_node(NAME)
        with pytest.raises(NotFoundError):
            await slurm.node(NAME)


async def test_a_node_can_be_made_again_larger(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        if not (await slurm.negotiate()).renewed_nodes:
            return
        for cpus in (16, 32):
            await slurm.new_node(new_node(replace(NODE, cpus=cpus), OWNER))
            assert (await slurm.node(NAME)).cpus == cpus
            await slurm.delete_node(NAME)
        with pytest.raises(NotFoundError):
            await slurm.delete_node(NAME)


async def test_features_topology_and_address_change_in_place_and_features_with_the_active_ones(
    open_site: OpenSite,
) -> None:
    async with open_site() as site, site.client() as slurm:
        if not (await slurm.negotiate()).new_node:
            return
        await slurm.new_node(new_node(NODE, OWNER))
        try:
            with pytest.raises(RefusedError) as raised:
                await slurm.update_node(NAME, NodeUpdate(features=("b",)))
            assert raised.value.slurm_errno == 2031
            await slurm.update_node(NAME, NodeUpdate(features=("b",), active_features=("b",), address="10.0.0.2"))
            node = await slurm.node(NAME)
            assert (node.features, node.active_features, node.address) == (("b",), ("b",), "10.0.0.2")
        finally:
            await slurm.delete_node(NAME)


async def test_a_name_that_is_taken_is_refused(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        if not (await slurm.negotiate()).new_node:
            return
        with pytest.raises(RefusedError) as raised:
            await slurm.new_node(NewNode(name=NODES[0], cpus=1))
        assert raised.value.slurm_errno == 2168


async def test_a_node_that_a_job_is_on_is_not_deleted(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        if not (await slurm.negotiate()).new_node:
            return
        job = await slurm.allocate(one_cpu("on-ext", partition="outside", external=True))
        (name,) = (await slurm.job(job.job_id)).nodes
        with pytest.raises(CapacityError) as raised:
            await slurm.delete_node(name)
        assert raised.value.slurm_errno == 2016
        await slurm.cancel(job.job_id)


async def test_only_administrators_make_nodes(open_site: OpenSite) -> None:
    async with open_site() as site, site.client("alice") as slurm:
        if not (await slurm.negotiate()).new_node:
            return
        with pytest.raises(RefusedError) as raised:
            await slurm.new_node(new_node(NODE, OWNER))
        assert raised.value.slurm_errno == 2010


async def test_a_node_of_slurm_conf_is_not_deleted(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        await slurm.negotiate()
        with pytest.raises(RefusedError) as raised:
            await slurm.delete_node(NODES[0])
        assert raised.value.slurm_errno == 2028


async def test_a_gres_that_slurm_conf_does_not_name_is_left_out_without_a_word(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        if not (await slurm.negotiate()).conf:
            return
        known = (await slurm.conf()).gres_types
        assert "gpu" in known
        assert "fpga" not in known
        await slurm.new_node(new_node(replace(NODE, gres={"gpu": 1, "fpga": 2}), OWNER))
        assert [(one.name, one.count) for one in (await slurm.node(NAME)).gres] == [("gpu", 1)]
        await slurm.delete_node(NAME)
