"""Who leads: the Lease is taken, renewed, released and lost on a real API server as on the fake one."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from extender.assembly.write_gate import WriteGate
from extender.domain.election import ElectionTiming
from extender.domain.events import MemberRef
from extender.kube.errors import Conflict
from extender.kube.lease import KubeNodeLeases, LeaseLock
from extender.kube.writes import PodWriter
from extender.server.election import Candidate, Deposed, Election
from tests.builders.fake_api import a_rng
from tests.builders.kube_sites import NODE, Site
from tests.contract.kube.conftest import OpenSite

FAST = ElectionTiming(lease=3.0, renew_deadline=2.0, retry=0.5)


def a_candidate(site: Site, name: str) -> tuple[Election, WriteGate]:
    write_gate = WriteGate(site.clock.now)
    write_gate.share(FAST.renew_deadline)
    election = Election(
        LeaseLock(site.connection, site.namespace, "slurm-extender"),
        Candidate(name, (("scheduling", f"http://{name}:8080"),)),
        FAST,
        write_gate,
        elapsed=site.clock.now,
        clock=site.clock,
        rng=a_rng(),
    )
    return election, write_gate


async def test_a_released_lease_is_taken_at_once_and_its_epoch_rises(open_site: OpenSite) -> None:
    async with open_site() as site:
        (one, first), (two, second) = a_candidate(site, "one"), a_candidate(site, "two")
        await one.campaign()
        assert (first.held, first.epoch) == (True, 1)
        waiting = asyncio.create_task(two.campaign())
        reigning = asyncio.create_task(one.reign())
        await asyncio.sleep(5)
        assert not waiting.done()
        assert two.leader is not None
        assert two.leader.address("scheduling") == "http://one:8080"
        reigning.cancel()
        await asyncio.wait([reigning])
        await one.release()
        began = site.clock.now()
        await waiting
        assert site.clock.now() - began <= 2
        assert (first.may_write(), second.may_write(), second.epoch) == (False, True, 2)


async def test_a_lease_that_is_not_renewed_is_taken_after_its_holder_has_fallen_silent(open_site: OpenSite) -> None:
    async with open_site() as site:
        (one, first), (two, second) = a_candidate(site, "one"), a_candidate(site, "two")
        await one.campaign()
        began = site.clock.now()
        await two.campaign()
        assert FAST.lease <= site.clock.now() - began <= FAST.lease + 2
        assert not first.may_write()
        with pytest.raises(Deposed):
            await one.reign()
        assert second.epoch == 2


async def test_of_two_who_write_what_they_read_one_is_refused(open_site: OpenSite) -> None:
    async with open_site() as site:
        one, _ = a_candidate(site, "one")
        await one.campaign()
        lock = LeaseLock(site.connection, site.namespace, "slurm-extender")
        read = await lock.read(5)
        assert read is not None
        await lock.write(read, read.record, 5)
        await one.release()
        with pytest.raises(Conflict):
            await lock.write(read, read.record, 5)


async def test_nothing_is_sent_where_it_may_not_be(open_site: OpenSite) -> None:
    async with open_site() as site, site.silenced() as connection:
        writer = PodWriter(connection, clock=site.clock, rng=a_rng())
        answer = await writer.bind(MemberRef("u", site.namespace, "p"), "n", {})
        assert "may not write" in answer.text
        assert await LeaseLock(connection, site.namespace, "other").read(5) is None


async def test_a_kubelet_that_lives_renews_the_lease_of_its_node(open_site: OpenSite) -> None:
    async with open_site() as site:
        leases = KubeNodeLeases(site.connection)
        first = await leases.renewed(NODE)
        assert datetime.fromisoformat(first).tzinfo is not None
        for _ in range(40):
            await asyncio.sleep(0.5)
            if (later := await leases.renewed(NODE)) != first:
                break
        assert later > first
        assert await leases.renewed("no-such-node") == ""
