"""Reasons why a Pod of a simulated cluster waits, by its condition and by `/debug`."""

from __future__ import annotations

from extender.domain.wellknown import ALLOCATED_CONDITION
from simulator.kube.objects import Json
from tests.builders.process_site import Site


def condition(site: Site, name: str) -> Json:
    """Return the condition that explains why a Pod waits, {} if it has none."""
    said = site.pod(name).get("status", {}).get("conditions") or ()
    return next((one for one in said if one["type"] == ALLOCATED_CONDITION), {})


async def message_of(site: Site, name: str, cause: str, within: float = 120.0) -> str:
    """Return the message of the condition once it has this reason."""
    await site.until(lambda: condition(site, name).get("reason") == cause, f"{name} shows {cause}", within)
    said = condition(site, name)
    assert said["status"] == "False"
    return str(said["message"])


async def debug(site: Site, name: str) -> Json:
    """Return a workload as `/debug` shows it, from which `kubectl slurm why` has its sentence."""
    shown: Json = (await site.get(8083, f"/debug/placeholders/{site.uid(name)}")).json()
    return shown
