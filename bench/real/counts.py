"""What the extender asked of Slurm, and what CPU it took, between two looks."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lab.clock import now
from lab.probe import request
from lab.site import Site

_REQUEST = re.compile(r'slurm_extender_slurm_request_duration_seconds_count\{request="([^"]*)",result="[^"]*"\} (\S+)')
_FILTER = re.compile(r"slurm_extender_filter_duration_seconds_count\{[^}]*\} (\S+)")
_BARRIER = re.compile(r'slurm_extender_gang_barriers_total\{result="([^"]*)"\} (\S+)')
_BY_ITSELF = frozenset({"states", "nodes", "partitions", "conf"})
"""What is asked at intervals, whatever happens."""


@dataclass(frozen=True, slots=True)
class Look:
    """Totals since the start of the process."""

    at: float
    slurm: Counter[str]
    filters: int
    barriers: Counter[str]
    """Attempts to bind all members of a gang, by result."""

    cpu_s: float
    rss_mb: float

    def polls_per_s(self, before: Look) -> float:
        """How often the states of all jobs were asked for."""
        return (self.slurm["states"] - before.slurm["states"]) / (self.at - before.at)

    def since(self, before: Look) -> dict[str, object]:
        """The differences. `requests` leaves out those that are sent at intervals anyway."""
        slurm = self.slurm - before.slurm
        return {
            "seconds": self.at - before.at,
            "slurm": dict(slurm),
            "requests": sum(count for what, count in slurm.items() if what not in _BY_ITSELF),
            "filters": self.filters - before.filters,
            "barriers": dict(self.barriers - before.barriers),
            "cpu_s": self.cpu_s - before.cpu_s,
            "rss_mb": self.rss_mb,
        }


def check(site: Site) -> Look:
    """Now. Reads /metrics and /proc."""
    _, answer = request("GET", f"http://127.0.0.1:{site.addresses.metrics}/metrics")
    text = answer.decode()
    slurm: Counter[str] = Counter()
    for what, count in _REQUEST.findall(text):
        slurm[what] += int(float(count))
    stat = Path(f"/proc/{site.extender.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    resident = int(Path(f"/proc/{site.extender.pid}/statm").read_text(encoding="utf-8").split()[1])
    return Look(
        now(),
        slurm,
        sum(int(float(count)) for count in _FILTER.findall(text)),
        Counter({result: int(float(count)) for result, count in _BARRIER.findall(text)}),
        (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"),
        resident * os.sysconf("SC_PAGE_SIZE") / 1e6,
    )
