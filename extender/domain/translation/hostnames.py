"""Read the hostlists that users write in a setting: `node-1,gpu[01-04,9]`.

`slurmclient.hostlist` is the parser. The text comes from the author of a Pod, so this module bounds its length and its
number of names before it is parsed, and accepts only names that a Slurm node can have.
"""

from __future__ import annotations

import re
from typing import Final


class HostnamesError(ValueError):
    """Report a text that is not a hostlist, or a name in it that no Slurm node can have."""


LARGEST: Final = 4096
"""Names that one text may stand for. slurmctld stores the list with each job, and the longest text without brackets
has fewer names."""

LONGEST: Final = 1023
"""Characters of the text, as for every other text that slurmctld stores with a job."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)


def expand(text: str) -> tuple[str, ...]:
    """Return every name of a hostlist, in its order.

    Raises `HostnamesError` for a text that cannot be parsed or names no node, for a name that no Slurm node can have,
    for a text longer than `LONGEST` and for more than `LARGEST` names.
    """
    if len(text) > LONGEST:
        raise HostnamesError(f"it has {len(text)} characters, at most {LONGEST} are allowed")
    # Imported on use: kubectl-slurm reads annotations, expands no hostlist, and ships without slurmclient.
    from slurmclient import hostlist  # noqa: PLC0415

    try:
        names = hostlist.expand(text, LARGEST)
    except hostlist.HostlistError as error:
        raise HostnamesError(str(error)) from error
    if not names:
        raise HostnamesError("it names no node")
    for name in names:
        if not _NAME.fullmatch(name):
            raise HostnamesError(f"{name!r} is not a node name")
    return names
