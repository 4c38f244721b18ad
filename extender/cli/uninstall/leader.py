"""Check that no extender leads: it would create again what the command removes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extender.cli.uninstall.options import InventoryError, LeaderActiveError
from extender.config.document import ExtenderConfiguration
from extender.kube.connection import ApiConnection
from extender.kube.errors import ApiError
from extender.kube.lease import LeaseLock

SLACK_S = 2.0
"""Seconds after the end of a Lease before its holder counts as gone."""


async def check_no_leader(
    config: ExtenderConfiguration, kubernetes: ApiConnection, print_line: Callable[[str], None]
) -> None:
    """Read the Lease twice, its duration apart. Raises `LeaderActiveError`, `InventoryError`.

    No clock is compared: a Lease is held if it is renewed between the two reads.
    """
    election = config.leader_election
    lock = LeaseLock(kubernetes, election.namespace, election.lease_name)
    try:
        first = await lock.read(10.0)
        if first is None or not first.record.holder:
            return
        print_line(f"waiting to check whether {first.record.holder} still leads")
        await asyncio.sleep(first.record.duration_s + SLACK_S)
        again = await lock.read(10.0)
    except ApiError as error:
        raise InventoryError(f"the Lease cannot be read, so an extender may lead: {error}") from error
    if again is not None and again.record.holder and again.record.renewed != first.record.renewed:
        raise LeaderActiveError(
            f"{again.record.holder} leads. Stop it first: kubectl -n {election.namespace} scale deployment "
            "slurm-extender --replicas=0, or use --force."
        )
