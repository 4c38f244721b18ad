"""What is asked of Slurm about nodes that stand for Nodes, and what is never touched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from extender.domain.nodes.drain_reasons import reason
from extender.domain.nodes.external_nodes import DesiredNode
from extender.domain.ports import Updated
from extender.slurm.external_nodes import Registrar, new_node
from simulator.slurm.faults import SlurmFault
from simulator.slurm.records import SimNode
from slurmclient import Listing, Reservation, SlurmClient
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import NODES, SimSite, sim_site

pytestmark = pytest.mark.looptime
OWNER, OTHER = "01234567", "89abcdef"
GRES = {"gpu:a": 2, "gpu:b": 1, "shard": 4}
WANT = DesiredNode("k1", "k1", "10.0.0.1", cpus=8, memory_mb=1000, gres=GRES, features=("a",))


@asynccontextmanager
async def registered(owner: str = OWNER) -> AsyncIterator[tuple[SimSite, SlurmClient, Registrar]]:
    """A Slurm with the node."""
    async with sim_site("26.05.5") as site, site.client() as client:
        assert (await Registrar(client, LoopClock(), owner).create(WANT)).done
        yield site, client, Registrar(client, LoopClock(), OWNER)


def there(site: SimSite) -> SimNode | None:
    return site.sim.controller.nodes.get("k1")


def test_every_gpu_has_a_file_of_its_own_and_nothing_else_has_one() -> None:
    made = new_node(WANT, OWNER)
    assert made.gres == "gpu:a:2,gpu:b:1,shard:4"
    assert made.gres_conf == (
        "name=gpu,type=a,count=2,file=/dev/nvidia[0-1]+name=gpu,type=b,count=1,file=/dev/nvidia2+name=shard,count=4"
    )
    assert made.features == ("a", f"slurm-extender:{OWNER}:k1")
    assert new_node(replace(WANT, gres={}), OWNER).gres_conf is None


async def test_a_second_request_for_a_node_says_that_the_next_read_will_show() -> None:
    async with registered() as (_, _, registrar):
        assert (await registrar.create(WANT)).done is None


async def test_a_change_keeps_the_mark_and_what_it_does_not_name() -> None:
    async with registered() as (site, _, registrar):
        want = replace(WANT, features=("b",), address="10.0.0.2", topology="tree:s1")
        assert (await registrar.change(want, ["features"])).done
        node = there(site)
        assert node is not None
        assert set(node.features) == {"b", f"slurm-extender:{OWNER}:k1"}
        assert (node.address, node.topology) == ("10.0.0.1", "")
        assert (await registrar.change(want, ["address", "topology"])).done
        assert (node.address, node.topology) == ("10.0.0.2", "tree:s1")


async def test_a_node_is_deleted_that_the_extender_drained_and_one_that_is_gone_is_deleted_already() -> None:
    async with registered() as (site, _, registrar):
        site.drain("k1", reason(OWNER, ["it is another size"]))
        assert (await registrar.delete("k1")).done
        assert there(site) is None
        assert (await registrar.delete("k1")).done


@pytest.mark.parametrize("said", ["", "disk", reason(OTHER, ["x"])])
async def test_a_node_that_the_extender_does_not_drain_now_is_not_deleted(said: str) -> None:
    async with registered() as (site, _, registrar):
        if said:
            site.drain("k1", said)
        assert (await registrar.delete("k1")).done is None
        assert there(site) is not None


async def test_a_node_that_another_extender_or_user_made_is_not_deleted() -> None:
    async with registered(OTHER) as (site, _, registrar):
        for name in ("k1", "ext-1", NODES[0]):
            site.drain(name, reason(OWNER, ["x"]))
            answer = await registrar.delete(name)
            assert answer.done is None
            assert "was not registered by this extender" in answer.text
            assert name in site.sim.controller.nodes


async def test_a_node_that_a_reservation_names_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with registered() as (site, client, registrar):
        site.drain("k1", reason(OWNER, ["x"]))

        async def reservations() -> Listing[Reservation]:
            return Listing((_reservation(("k1",)),), (), None)

        monkeypatch.setattr(client, "reservations", reservations)
        assert await registrar.delete("k1") == Updated(None, "Slurm node k1 is in the reservation maintenance")
        assert there(site) is not None


@pytest.mark.parametrize(
    ("number", "hint"), [(2169, "MaxNodeCount"), (2178, "topology.yaml"), (2010, "root or SlurmUser"), (22, "")]
)
async def test_a_refusal_says_what_to_do_where_that_is_known(number: int, hint: str) -> None:
    async with sim_site("26.05.5") as site, site.client() as client:
        site.sim.restd.faults.add(SlurmFault.REFUSE, "POST", "/new/node", times=1, number=number)
        answer = await Registrar(client, LoopClock(), OWNER).create(WANT)
        assert answer.done is False
        assert hint in answer.text


async def test_a_slurm_that_cannot_make_nodes_refuses_and_one_that_is_away_may_be_called_again() -> None:
    async with sim_site("24.11.5") as site, site.client() as client:
        assert (await Registrar(client, LoopClock(), OWNER).create(WANT)).done is False
    async with sim_site("26.05.5") as site, site.client() as client:
        await client.negotiate()
        site.sim.restd.slurmctld_up = False
        assert (await Registrar(client, LoopClock(), OWNER).create(WANT)).done is None


def _reservation(nodes: tuple[str, ...]) -> Reservation:
    return Reservation(
        name="maintenance",
        nodes=nodes,
        node_count=len(nodes),
        core_count=None,
        partition="",
        features="",
        flags=frozenset(),
        start_time=None,
        end_time=None,
        users=(),
        groups=(),
        accounts=(),
        licenses="",
        tres={},
    )
