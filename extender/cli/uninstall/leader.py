"""Whether an extender is at work, which would take again what is handed back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extender.cli.uninstall.options import CannotLookError, StillLedError
from extender.config.document import ExtenderConfiguration
from extender.kube.connection import ApiConnection
from extender.kube.errors import ApiError
from extender.kube.lease import LeaseLock

SLACK_S = 2.0
"""Beyond its promise, before the Lease of a leader that renews nothing counts as nobody's."""


async def nobody_leads(config: ExtenderConfiguration, kubernetes: ApiConnection, say: Callable[[str], None]) -> None:
    """Look, for some seconds where there is a Lease. Raises `StillLedError`, `CannotLookError`.

    Nobody's clock is believed: a Lease is held that is renewed while one looks.
    """
    election = config.leader_election
    lock = LeaseLock(kubernetes, election.namespace, election.lease_name)
    try:
        first = await lock.read(10.0)
        if first is None or not first.record.holder:
            return
        say(f"waiting to see whether {first.record.holder} still leads")
        await asyncio.sleep(first.record.duration_s + SLACK_S)
        again = await lock.read(10.0)
    except ApiError as error:
        raise CannotLookError(f"whether an extender leads cannot be told: {error}") from error
    if again is not None and again.record.holder and again.record.renewed != first.record.renewed:
        raise StillLedError(
            f"{again.record.holder} leads. Stop it first: kubectl -n {election.namespace} scale deployment "
            "slurm-extender --replicas=0. --force goes on all the same."
        )
