"""Certificates: do they fit their keys, how long are they good, do they carry the names by which they are called?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from extender.doctor.finding import Finding, ok, unseen, warning, wrong

SOON_S = 14 * 86400.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate by the group that names it, `http.tls`. `error`: it cannot be served with, and why."""

    key: str
    file: str
    error: str = ""
    absent: bool = False
    """It is not on this machine."""

    expires_at: float | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    """What a caller says who calls it by that name; "" where it believes."""

    chain: str | None = None
    """What a caller says who trusts the authority that is known here; "": it believes. `None`: none is known."""


def certificates(given: Sequence[Certificate], now: float) -> Iterator[Finding]:
    """Lines for each; `now` in seconds since the epoch."""
    for one in given:
        yield from _certificate(one, now)


def _certificate(one: Certificate, now: float) -> Iterator[Finding]:
    check = f"certificate {one.key}"
    if one.absent:
        yield unseen(check, f"{one.file} is not on this machine", "run `slurm-extender doctor` in the extender's Pod")
        return
    if one.error:
        yield wrong(
            check,
            one.error,
            "see whether certificate and key are whole and belong together; a Secret that is written in two steps is "
            "half a pair in between",
        )
        return
    bad = False
    left = None if one.expires_at is None else one.expires_at - now
    if left is not None and left <= 0:
        bad = True
        yield wrong(
            check, f"{one.file} ran out {-left / 86400:.1f} days ago", "renew it: no caller believes it any more"
        )
    elif left is not None and left < SOON_S:
        bad = True
        yield warning(
            check,
            f"{one.file} is good for {left / 86400:.1f} more days",
            "see that it is renewed; it is read again by itself",
        )
    for name, said in one.names.items():
        if said and not (left is not None and left <= 0):
            bad = True
            yield wrong(
                check,
                f"who calls {name} does not believe {one.file}: {said}",
                f"it needs {name} among its DNS names or IPs",
            )
    if one.chain and not (left is not None and left <= 0):
        bad = True
        yield wrong(
            check,
            f"{one.file} is not believed by who trusts the authority of this configuration: {one.chain}",
            "sign it by that authority, and put certificates in between behind it in the same file",
        )
    if not bad:
        lasts = "" if left is None else f", good for {left / 86400:.0f} more days"
        yield ok(check, f"{one.file} fits its key{lasts}{_called(one)}")


def _called(one: Certificate) -> str:
    return f", and is believed as {', '.join(one.names)}" if one.names else ""
