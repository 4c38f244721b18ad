"""Fair shares and limits as Slurm reports them, read no more often than needed."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from extender.domain.fair_shares import FairShare
from extender.domain.ports import PortError
from extender.slurm.shares import FRESH_S, SlurmrestdShares
from slurmclient import INFINITE, Association, Share, SlurmClient, UnsupportedError
from tests.builders.services import StillClock

ACCOUNT: dict[str, Any] = {"id": 1, "cluster": "c", "partition": "", "usage": 0.0, "usage_normalized": 0.0}


def share(name: str, parent: str, *, is_user: bool) -> Share:
    more: dict[str, Any] = {"effective_usage": 0.25, "fairshare_factor": 0.5, "fairshare_level": INFINITE}
    return Share(**ACCOUNT, name=name, parent=parent, is_user=is_user, shares=INFINITE, shares_normalized=0.1, **more)


def association(account: str, user: str) -> Association:
    more: dict[str, Any] = {"id": 1, "cluster": "c", "partition": "", "parent_account": "", "is_default": True}
    return Association(
        **more,
        account=account,
        user=user,
        default_qos="normal",
        qos=("normal", "high"),
        shares=1,
        priority=None,
        max_jobs=10,
        max_submit_jobs=INFINITE,
    )


class Accounting:
    """The two calls, and how often they were made."""

    def __init__(self, *, database: bool = True) -> None:
        self.calls = 0
        self._database = database

    async def shares(self) -> list[Share]:
        self.calls += 1
        await asyncio.sleep(0)
        return [share("physics", "root", is_user=False), share("ada", "physics", is_user=True)]

    async def associations(self) -> list[Association]:
        if not self._database:
            raise UnsupportedError("no slurmdbd", endpoint="GET /associations")
        return [association("physics", "ada")]


async def test_a_user_is_shown_under_its_account_with_its_limits() -> None:
    found = await SlurmrestdShares(cast("SlurmClient", Accounting()), StillClock()).fair_shares()
    assert found.limits_unknown == ""
    assert found.shares == (
        FairShare("physics", parent="root", normalized=0.1, usage=0.25, factor=0.5),
        FairShare(
            "physics",
            "ada",
            normalized=0.1,
            usage=0.25,
            factor=0.5,
            max_jobs=10,
            qos=("normal", "high"),
            default_qos="normal",
        ),
    )


async def test_without_slurmdbd_in_slurmrestd_the_limits_are_left_out_with_the_reason() -> None:
    found = await SlurmrestdShares(cast("SlurmClient", Accounting(database=False)), StillClock()).fair_shares()
    assert [one.max_jobs for one in found.shares] == [None, None]
    assert "no slurmdbd" in found.limits_unknown


async def test_slurm_is_queried_again_only_when_the_answer_is_old() -> None:
    clock, accounting = StillClock(), Accounting()
    shares = SlurmrestdShares(cast("SlurmClient", accounting), clock)
    await shares.fair_shares()
    await shares.fair_shares()
    assert accounting.calls == 1
    clock.time += FRESH_S
    await shares.fair_shares()
    assert accounting.calls == 2


async def test_all_concurrent_callers_share_one_answer() -> None:
    accounting = Accounting()
    shares = SlurmrestdShares(cast("SlurmClient", accounting), StillClock())
    answers = await asyncio.gather(*(shares.fair_shares() for _ in range(50)))
    assert accounting.calls == 1
    assert len(set(map(id, answers))) == 1


class Away(Accounting):
    async def shares(self) -> list[Share]:
        self.calls += 1
        raise UnsupportedError("there are no shares: the cluster has no slurmdbd", endpoint="GET /shares")


async def test_a_cluster_without_accounting_is_an_error_of_the_port() -> None:
    with pytest.raises(PortError, match="no slurmdbd"):
        await SlurmrestdShares(cast("SlurmClient", Away()), StillClock()).fair_shares()


async def test_an_error_is_an_answer_for_a_while_too() -> None:
    clock, accounting = StillClock(), Away()
    shares = SlurmrestdShares(cast("SlurmClient", accounting), clock)
    for _ in range(3):
        with pytest.raises(PortError, match="no slurmdbd"):
            await shares.fair_shares()
    assert accounting.calls == 1
    clock.time += FRESH_S
    with pytest.raises(PortError):
        await shares.fair_shares()
    assert accounting.calls == 2
