"""Does slurmrestd answer at each of its addresses, and as which Slurm?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from extender.doctor.finding import Finding, ok, unseen, warning, wrong

CHECK = "slurmrestd"


@dataclass(frozen=True, slots=True)
class Address:
    """One address and what came of a ping. `error` is "" where it was answered, `unsupported`: by a Slurm too old."""

    url: str
    release: str = ""
    api_version: int = 0
    cluster: str = ""
    responding: bool | None = None
    """slurmctld answered slurmrestd; of a token that it refuses slurmrestd says that it did not. `None`: there was no
    token to ask with."""

    error: str = ""
    unsupported: bool = False
    refused: bool = False
    """The error is that the token was refused."""

    elsewhere: bool = False
    """It is a name of the cluster's own network, and nobody answered here, outside of it."""


def slurmrestd(addresses: Sequence[Address], newest: int) -> Iterator[Finding]:
    """A line for each address. `newest` is the highest API version that this program speaks."""
    for one in addresses:
        yield _address(one, newest)
    clusters = {one.cluster for one in addresses if one.cluster}
    if len(clusters) > 1:
        yield wrong(
            CHECK,
            f"the addresses belong to different clusters: {', '.join(sorted(clusters))}",
            "list addresses of one cluster alone in slurm.addresses: an answer of another one than the first is none",
        )


def _address(one: Address, newest: int) -> Finding:
    if one.unsupported:
        return wrong(CHECK, f"{one.url}: {one.error}", "slurmrestd of Slurm 23.11.6 or newer is needed there")
    if one.error and one.elsewhere:
        return unseen(
            CHECK,
            f"{one.url} is a name of the cluster's own network: {one.error}",
            "run it in the Pod, or forward it (`kubectl port-forward`) and say so: --set 'slurm.addresses=[http://…]'",
        )
    if one.refused:
        return wrong(CHECK, f"{one.url}: {one.error}", "it is there; see the lines about the token")
    if _UNTRUSTED in one.error:
        return wrong(
            CHECK,
            f"{one.url}: {one.error}",
            "set slurm.tls.caFile to the authority that signed its certificate, and call it by a name that it has",
        )
    if one.error:
        return wrong(
            CHECK,
            f"{one.url}: {one.error}",
            "check slurm.addresses, that slurmrestd runs there with SLURM_JWT=daemon in its environment, and that "
            "firewalls and NetworkPolicies let this place reach it",
        )
    said = f"{one.url}: Slurm {one.release}, API v0.0.{one.api_version}"
    said += f", cluster {one.cluster}" if one.cluster else ""
    if one.responding is False:
        return wrong(
            CHECK,
            f"{said}; slurmctld does not answer it",
            "see whether slurmctld runs (`scontrol ping`); slurmrestd says the same of a token that is refused, so see "
            "the lines about the token too",
        )
    if one.api_version == newest and _newer(one.release):
        return warning(
            CHECK,
            f"{said}: a release that this version has not been tried with",
            "look into CHANGELOG.md for a version that has",
        )
    return ok(CHECK, said)


_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""In OpenSSL's words."""

NEWEST = (26, 5)
"""The newest release that this version was run with."""


def _newer(release: str) -> bool:
    parts = release.split(".")
    return len(parts) > 1 and all(part.isdigit() for part in parts[:2]) and (int(parts[0]), int(parts[1])) > NEWEST
