"""The devices of jobs as a real Slurm shows them."""

from __future__ import annotations

import re

from extender.domain.jobs.devices import numbers
from lab.site import Site
from tests.builders.device_ledger import Device
from tests.builders.sampler import Sampler

_DETAIL = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")


class SlurmDevices(Sampler):
    """Read the devices of each job from `scontrol show job -d` in a thread, by the job's id.

    Slurm shows the devices of a job while it runs.
    """

    def __init__(self, site: Site) -> None:
        super().__init__("scontrol")
        self.found: dict[int, tuple[Device, ...]] = {}
        self._site = site

    def sample(self) -> None:
        for line in self._site.slurm.run("scontrol", "show", "job", "-d", "-o").splitlines():
            job, detail = re.match(r"JobId=(\d+)", line), _DETAIL.search(line)
            if job and detail and (index := re.search(r"IDX:([0-9,-]+)", detail[2])):
                devices = tuple(sorted((detail[1], f"gpu-{at}") for at in numbers(index[1])))
                self.found.setdefault(int(job[1]), devices)
