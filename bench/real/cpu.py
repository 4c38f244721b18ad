"""CPU time of each of the parts between two looks, and how busy the machine was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.clock import now
from lab.site import Site

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)
"""idle and iowait among the numbers of the first line of /proc/stat."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Totals since each process began, by name of the part."""

    at: float
    parts: Mapping[str, float]
    busy_s: float
    idle_s: float

    def since(self, before: Spent) -> dict[str, object]:
        """Seconds of CPU by part, and the share of all cores that was busy, whoever used it."""
        busy, idle = self.busy_s - before.busy_s, self.idle_s - before.idle_s
        parts = {name: spent - before.parts.get(name, 0.0) for name, spent in self.parts.items()}
        return {
            "seconds": self.at - before.at,
            "cpu_s": {name: round(spent, 2) for name, spent in parts.items() if spent >= _TICK_S},
            "busy": busy / (busy + idle) if busy + idle else 0.0,
        }


def processes(site: Site, more: Mapping[str, int]) -> dict[str, list[int]]:
    """The processes of each part: those of the site, `more`, and this one, which is the load."""
    kube, slurm = site.kube, site.slurm
    found = {
        "etcd": [kube.etcd.pid],
        "kube-apiserver": [kube.apiserver.pid],
        "kwok": [kube.kwok.pid],
        "kube-scheduler": [site.scheduler.pid],
        "slurmctld": [slurm.pid("slurmctld")],
        "slurmrestd": [slurm.pid("slurmrestd")],
        "slurmd": [slurm.pid(node.name) for node in slurm.nodes],
        "extender": [site.extender.pid],
        "load": [os.getpid()],
    }
    if kube.controller_manager is not None:
        found["kube-controller-manager"] = [kube.controller_manager.pid]
    return found | {name: [pid] for name, pid in more.items()}


def spent(parts: Mapping[str, list[int]]) -> Spent:
    """Now. Reads /proc."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    ticks = [int(number) for number in first]
    idle = sum(ticks[index] for index in _IDLE)
    return Spent(
        now(),
        {name: sum(process_cpu_s(pid) for pid in pids) for name, pids in parts.items()},
        (sum(ticks) - idle) * _TICK_S,
        idle * _TICK_S,
    )


def process_cpu_s(pid: int) -> float:
    """User and system time of a process, all of its threads."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) * _TICK_S
