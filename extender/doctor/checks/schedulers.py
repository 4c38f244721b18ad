"""Who serves our scheduler name: one kube-scheduler, and extenders that elect one among them?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extender.doctor.checks.profile import CHECK, ExpectedProfile, profile
from extender.doctor.finding import Finding, ok, unseen, warning, wrong

SERVERS = "extenders"


@dataclass(frozen=True, slots=True)
class Configured:
    """A KubeSchedulerConfiguration, and where it stands."""

    where: str
    document: Mapping[str, Any]
    error: str = ""
    """It cannot be read, and why."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads by a Lease of an extender: `slurm-extender/slurm-extender`, and for which scheduler name."""

    lease: str
    holder: str
    scheduler: str
    alive: bool


def schedulers(found: Sequence[Configured] | None, wanted: ExpectedProfile) -> Iterator[Finding]:
    """`found` are those of the cluster and those that were given; `None`: nobody could look, and none was given."""
    if found is None:
        yield unseen(
            CHECK,
            "its configuration could not be looked at",
            "--scheduler-config FILE with it, or run this as somebody who may read Deployments and ConfigMaps",
        )
        return
    serving = [one for one in found if wanted.scheduler in _names(one.document)]
    if not found:
        yield warning(
            CHECK,
            "no Deployment runs a kube-scheduler with a configuration in a ConfigMap",
            f"manifests/base has one for {wanted.scheduler}; where it runs otherwise, --scheduler-config FILE",
        )
    for one in found:
        if one.error:
            yield warning(
                CHECK, f"{one.where}, {one.error}", "mend it: kube-scheduler ends at its start with such a file"
            )
    for one in serving or (each for each in found if not each.error):
        yield from profile(one.document, one.where, wanted)
    if len(serving) > 1:
        yield wrong(
            CHECK,
            f"{len(serving)} kube-schedulers serve {wanted.scheduler}: {', '.join(one.where for one in serving)}",
            "one of them is enough; both would place the same Pods",
        )


def leaders(found: Sequence[Leader] | None, scheduler: str, own: str) -> Iterator[Finding]:
    """`own` is the Lease of this configuration; `found`: all of extenders in the cluster, `None`: nobody could look."""
    if found is None:
        yield unseen(
            SERVERS,
            f"whether other extenders serve {scheduler} could not be looked at",
            "`kubectl get leases -A` as an administrator: each extender holds one",
        )
        return
    by_lease: dict[str, list[Leader]] = defaultdict(list)
    for one in found:
        if one.alive and one.scheduler == scheduler:
            by_lease[one.lease].append(one)
    if len(by_lease) > 1:
        names = "; ".join(f"{lease} held by {ones[0].holder}" for lease, ones in sorted(by_lease.items()))
        yield wrong(
            SERVERS,
            f"{len(by_lease)} extenders lead for {scheduler} at a time: {names}",
            "each ends the jobs and Pods of the other as its own: give one of them another scheduler.name, or let both "
            "stand for the same Lease (leaderElection.namespace, leaseName)",
        )
    elif by_lease:
        lease, [one, *_] = next(iter(by_lease.items()))
        yield ok(SERVERS, f"{one.holder} leads for {scheduler}, by {lease}")
    else:
        yield unseen(
            SERVERS,
            f"no Lease says that an extender serves {scheduler}",
            f"it is {own} with leaderElection.enabled; a process alone has none",
        )


def _names(document: Mapping[str, Any]) -> list[str]:
    """The scheduler names of its profiles."""
    profiles = document.get("profiles")
    return (
        [str(one.get("schedulerName")) for one in profiles if isinstance(one, dict)]
        if isinstance(profiles, list)
        else []
    )
