"""Files that the configuration names: are they there, readable, and something in them?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from extender.doctor.finding import Finding, ok, unseen, wrong

CHECK = "files"


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file by the key that names it. `error`: it cannot be read, in the system's words."""

    key: str
    path: str
    error: str = ""
    absent: bool = False
    empty: bool = False
    mounted: bool = True
    """Its place belongs to this machine; on a laptop the folders of the Pod are not there."""


def files(named: Sequence[NamedFile]) -> Iterator[Finding]:
    """One line for all that is well, one for each that is not."""
    elsewhere = [one for one in named if one.absent and not one.mounted]
    if elsewhere:
        yield unseen(
            CHECK,
            f"{', '.join(f'{one.key} ({one.path})' for one in elsewhere)}: not on this machine",
            "in the extender's Pod they are: kubectl exec -n slurm-extender deploy/slurm-extender -- slurm-extender "
            "doctor --config /etc/slurm-extender/config/config.yaml",
        )
    bad = [one for one in named if one not in elsewhere and (one.error or one.empty)]
    for one in bad:
        yield wrong(
            CHECK,
            f"{one.key}: {one.path} {'is empty' if one.empty else f'cannot be read: {one.error}'}",
            "see whether the Secret that should be mounted there exists, has this key, and may be read by the process",
        )
    good = len(named) - len(bad) - len(elsewhere)
    if good:
        yield ok(CHECK, f"{good} can be read")
