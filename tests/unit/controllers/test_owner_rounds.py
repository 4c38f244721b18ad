"""Rounds in which the owners of Pods are read: bounded, and fair to owners that can be read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from extender.controllers.owner_rounds import Controllers, OwnerRounds
from extender.domain.ports import PortError
from extender.domain.views import OwnerReference, PodView
from tests.builders.fake_api import LoopClock

pytestmark = pytest.mark.looptime

HANGS_S = 10.0


@dataclass
class SlowOwners:
    """Owners of which those called `bad` are given up after `HANGS_S`."""

    names_read: list[str] = field(default_factory=list)

    async def controllers(self, _namespace: str, owner: OwnerReference, *, patient: bool = True) -> Controllers:
        self.names_read.append(owner.name)
        if owner.name.startswith("bad"):
            await asyncio.sleep(HANGS_S)
            raise PortError("no answer")
        return ()


def a_pod(namespace: str, owner: str, api_version: str = "v1") -> PodView:
    return PodView(f"{namespace}-{owner}", namespace, owner, owner=OwnerReference(api_version, "Kind", owner, owner))


async def test_a_round_has_an_end_although_a_thousand_owners_hang() -> None:
    rounds = OwnerRounds(SlowOwners(), LoopClock())
    pods = [a_pod(f"ns{number % 50}", f"bad{number}") for number in range(1000)]
    began = asyncio.get_running_loop().time()
    read, failed = await rounds.read(pods)
    assert asyncio.get_running_loop().time() - began <= 45.0
    assert not read
    assert failed.keys() == {pod.uid for pod in pods}


async def test_owners_of_other_namespaces_are_read_in_the_round_in_which_those_of_one_hang() -> None:
    rounds = OwnerRounds(SlowOwners(), LoopClock())
    pods = [a_pod("theirs", f"bad{number}") for number in range(200)]
    pods += [a_pod("ours", f"good{number}") for number in range(200)]
    began = asyncio.get_running_loop().time()
    read, _ = await rounds.read(pods)
    assert read.keys() == {f"ours-good{number}" for number in range(200)}
    assert asyncio.get_running_loop().time() - began <= 2 * HANGS_S


async def test_owners_that_failed_follow_those_that_were_not_requested() -> None:
    owners = SlowOwners()
    rounds = OwnerRounds(owners, LoopClock())
    pods = [a_pod("ours", f"bad{number}") for number in range(8)] + [a_pod("ours", "good")]
    read, failed = await rounds.read(pods)
    assert not read
    assert "no answer" in failed["ours-good"]
    owners.names_read.clear()
    read, _ = await rounds.read(pods)
    assert set(read) == {"ours-good"}
    assert owners.names_read[0] == "good"


async def test_owners_that_fail_at_once_keep_no_other_waiting() -> None:
    class Refusing(SlowOwners):
        async def controllers(self, namespace: str, owner: OwnerReference, *, patient: bool = True) -> Controllers:
            if owner.name.startswith("bad"):
                raise PortError("no answer")
            return await super().controllers(namespace, owner)

    pods = [a_pod("ours", f"bad{number}") for number in range(500)] + [a_pod("ours", "good")]
    read, _ = await OwnerRounds(Refusing(), LoopClock()).read(pods)
    assert set(read) == {"ours-good"}
