"""Read fair shares and limits of accounts through slurmrestd: implements `ports.SlurmShares`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from extender.domain.fair_shares import FairShare, FairShares
from extender.domain.ports import Clock, PortError
from extender.slurm.api_requests import ObserveRequest, as_port_error, timed, unobserved
from slurmclient import Association, Infinite, Share, SlurmClient

FRESH_S = 15.0
"""Seconds for which an answer is given again: anyone who may ask `/debug` could make slurmrestd read all accounts."""


class SlurmrestdShares:
    """Read shares at most every `FRESH_S` seconds, for all who ask together. An error counts as an answer."""

    def __init__(self, client: SlurmClient, clock: Clock, *, observe_request: ObserveRequest = unobserved) -> None:
        self._client = client
        self._clock = clock
        self._observe = observe_request
        self._one_read = asyncio.Lock()
        self._last: tuple[float, FairShares | str] | None = None
        """When Slurm was asked last, and its answer or the text of its error."""

    async def fair_shares(self) -> FairShares:
        """Return all accounts and users, as read lately. Raises `PortError`."""
        async with self._one_read:
            now = self._clock.now()
            if self._last is None or now - self._last[0] >= FRESH_S:
                try:
                    self._last = now, await self._read()
                except PortError as error:
                    self._last = now, str(error)
            answer = self._last[1]
        if isinstance(answer, str):
            raise PortError(answer)
        return answer

    async def _read(self) -> FairShares:
        async with as_port_error("fair shares"), timed("shares", self._clock, self._observe):
            found = [_fair_share(one) for one in await self._client.shares()]
        why, limits = "", dict[tuple[str, str, str], Association]()
        try:
            async with as_port_error("associations"), timed("associations", self._clock, self._observe):
                limits = {(one.account, one.user, one.partition): one for one in await self._client.associations()}
        except PortError as error:
            why = str(error)
        return FairShares(tuple(_limited(one, limits) for one in found), why)


def _fair_share(share: Share) -> FairShare:
    """Return the line; of a user, Slurm names the account as the parent."""
    return FairShare(
        account=share.parent if share.is_user else share.name,
        user=share.name if share.is_user else "",
        partition=share.partition,
        parent="" if share.is_user else share.parent,
        shares=_finite(share.shares),
        normalized=_finite(share.shares_normalized),
        usage=_finite(share.effective_usage),
        factor=_finite(share.fairshare_factor),
    )


def _limited(share: FairShare, limits: Mapping[tuple[str, str, str], Association]) -> FairShare:
    found = limits.get((share.account, share.user, share.partition))
    if found is None:
        return share
    return replace(
        share,
        max_jobs=_limit(found.max_jobs),
        max_submit_jobs=_limit(found.max_submit_jobs),
        qos=found.qos,
        default_qos=found.default_qos,
    )


def _finite(number: float | Infinite | None) -> float | None:
    return None if isinstance(number, Infinite) else number


def _limit(number: int | Infinite | None) -> int | None:
    return None if isinstance(number, Infinite) else number
