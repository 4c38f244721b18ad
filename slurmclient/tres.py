"""Read and write trackable resources (TRES) and generic resources (GRES) as text.

`cpu=4,mem=2G,node=1,gres/gpu:h100=2` is a TRES string: the resources that a job requests or has.
`gpu:h100:2(IDX:0-1),shard:8` is a GRES string: the resources of a node, or the devices of a job on it;
`gpu:h100(CNT:2)` if no device of that GRES has a file.
Sources: `src/common/slurmdb_defs.c`, `src/interfaces/gres.c`, sbatch(1) `--tres-per-task`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_UNITS: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}
_QUANTITY: Final = re.compile(r"^([0-9]{1,18}(?:\.[0-9]{1,18})?)([KMGTP]?)[B]?$", re.IGNORECASE | re.ASCII)
_GRES_REQUEST: Final = re.compile(
    r"^(?:gres[/:])[^,:=/\s]+(?::[^,:=\s]+)?(?:[:=][0-9]+[KMGTP]?)?$", re.IGNORECASE | re.ASCII
)
# The kinds that accounting knows besides gres; job requests may name them with a count (sbatch(1) --tres-per-task).
_OTHER_REQUEST: Final = re.compile(
    r"^(?:cpu|mem|license/[^,:=\s]+|bb/[^,:=\s]+)[:=][0-9]+[KMGTP]?$", re.IGNORECASE | re.ASCII
)


class TresError(ValueError):
    """Report a text that is not a TRES or GRES string."""


@dataclass(frozen=True, slots=True)
class Gres:
    """Describe one generic resource.

    Attributes:
        name: `gpu`.
        type: `h100`, None if untyped.
        count: how many.
        index: device numbers as Slurm writes them (`0-1,3`); of parts (shards, MPS) those of the devices that they
            belong to; empty if Slurm does not report it.
    """

    name: str
    type: str | None
    count: int
    index: str = ""


def parse_tres(text: str) -> dict[str, int]:
    """Return the counts by name of a TRES string; `mem` in MiB, everything else in units.

    Raises:
        TresError: an item is not `name=count`.
    """
    counts: dict[str, int] = {}
    for item in _items(text):
        name, separator, quantity = item.partition("=")
        if not separator or not name:
            raise TresError(f"TRES string {_clip(text)!r}: {_clip(item)!r} is not 'name=count'")
        counts[name] = _quantity(quantity, "M" if name == "mem" else "", text)
    return counts


def parse_gres(text: str) -> tuple[Gres, ...]:
    """Return the resources of a GRES string of a node or of a job's `gres_detail`.

    Raises:
        TresError: an item has no name or its count is not a number.
    """
    return tuple(_gres(item, text) for item in _items(text))


def check_tres_request(text: str) -> None:
    """Reject a text that slurmctld rejects as "Invalid TRES": REST expects `gres/gpu:2`, not `gpu:2` as sbatch does.

    Raises:
        TresError: an item is neither `gres/name[:type][:count]` nor another TRES with a count.
    """
    for item in text.split(","):
        if not _GRES_REQUEST.match(item) and not _OTHER_REQUEST.match(item):
            raise TresError(
                f"{_clip(item)!r} is not a resource request; write gres/name[:type]:count, e.g. gres/gpu:h100:2"
            )


def _items(text: str) -> list[str]:
    text = text.strip()
    if text in ("", "(null)", "N/A"):
        return []
    items: list[list[str]] = []
    open_brackets = 0
    for piece in text.split(","):  # a comma between parentheses belongs to its item: gpu:h100:4(IDX:0,2-3)
        if open_brackets > 0:
            items[-1].append(piece)
        else:
            items.append([piece])
        open_brackets += piece.count("(") - piece.count(")")
    return [",".join(pieces).strip() for pieces in items]


def _quantity(text: str, unit: str, whole: str) -> int:
    """Read `2G` in multiples of `unit`; a number without suffix is in that unit already."""
    match = _QUANTITY.match(text)
    if match is None:
        raise TresError(f"{_clip(whole)!r}: {_clip(text)!r} is not a count")
    scale = _UNITS[match[2].upper()] / _UNITS[unit] if match[2] else 1
    return int(match[1]) * int(scale) if scale >= 1 and "." not in match[1] else int(float(match[1]) * scale)


def _gres(item: str, whole: str) -> Gres:
    body, _, bracket = item.partition("(")
    # A type of "(null)" is how older releases print an untyped resource: gpu:(null):2(IDX:0-1).
    if bracket.startswith("null)"):
        tail, _, bracket = bracket[len("null)") :].partition("(")
        body += tail
    body = body.removeprefix("gres/").removeprefix("gres:").replace("=", ":")
    name, *rest = body.split(":")
    if not name:
        raise TresError(f"GRES string {_clip(whole)!r}: {_clip(item)!r} has no name")
    fields = [name, *(field for field in rest if field not in ("", "no_consume"))]
    count = 1
    if len(fields) > 1 and _QUANTITY.match(fields[-1]):
        count = _quantity(fields.pop(), "", whole)
    elif counted := re.search(r"CNT:([0-9]{1,18})(?![0-9])", bracket):
        count = int(counted[1])
    if len(fields) > 2:
        raise TresError(f"GRES string {_clip(whole)!r}: {_clip(item)!r} is not 'name[:type][:count]'")
    return Gres(fields[0], fields[1] if len(fields) == 2 else None, count, _index(bracket))


def _index(bracket: str) -> str:
    """Read the text in parentheses: `IDX:0-1`, or for a shared resource the part of each device, `3/4,0/4`."""
    if index := re.search(r"IDX:([^)]*)", bracket):
        return index[1] if index[1] != "N/A" else ""
    parts = re.findall(r"(?:^|,)([0-9]+)/[0-9]+", bracket)
    return ",".join(str(number) for number, part in enumerate(parts) if int(part))


def _clip(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
