"""Read the CPUs of this machine from sysfs, in the form of `lscpu -p=CPU,CORE,SOCKET,NODE`."""

from __future__ import annotations

import re
from pathlib import Path

from extender.domain.devices.cpu_order import read_order

SYSFS = Path("/sys/devices/system/cpu")

_SHORT = 32
"""Characters of a number in a file of sysfs, with room to spare."""


def cpu_table(folder: Path = SYSFS) -> str:
    """Return a line for each online CPU. Raises OSError, and `ValueError` for a file without a number."""
    online = read_order((folder / "online").read_text().strip())
    return "\n".join(_row(folder / f"cpu{cpu}", cpu) for cpu in online)


def _row(folder: Path, cpu: int) -> str:
    core, socket = (_number(folder / "topology" / name) for name in ("core_id", "physical_package_id"))
    nodes = [found[1] for one in folder.iterdir() if (found := re.fullmatch(r"node([0-9]{1,6})", one.name, re.ASCII))]
    return f"{cpu},{core},{socket},{nodes[0] if nodes else ''}"


def _number(path: Path) -> int:
    """Return the number in a file; a virtual machine without sockets has -1, which is 0 here."""
    text = path.read_text()[:_SHORT].strip()
    if not re.fullmatch(r"-1|[0-9]{1,9}", text, re.ASCII):
        raise ValueError(f"{path} has {text!r}: it must be a number")
    return max(0, int(text))
