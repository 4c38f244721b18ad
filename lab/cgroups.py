"""The cgroups (v1) of a node: made before its kubelet starts, and asked which processes a Pod has.

cgroup.procs is the only witness of processes that run on after the API server forgot their Pod.
"""

import os
import shutil
from pathlib import Path

from lab.clock import wait_until
from lab.errors import LabError

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd")
_CPUSET = ("cpuset.cpus", "cpuset.mems")


class NodeCgroups:
    """The trees named ``name`` below each controller."""

    def __init__(self, name: str) -> None:
        self.name = name
        # runc makes one in the cgroup2 hierarchy too.
        self.trees = tuple(ROOT / controller / name for controller in (*CONTROLLERS, "unified"))

    def make(self) -> None:
        """Make the trees; raise LabError where the machine has no cgroup v1.

        ``kubepods`` is made here too: the kubelet would write all CPUs of the node, of which the machine may have
        fewer, into the cpuset of a new one, and not start.
        """
        if not (ROOT / "cpuset" / "cpuset.cpus").exists():
            raise LabError(f"kubelets of the lab need cgroup v1 below {ROOT}: mount the controllers there")
        for controller in CONTROLLERS:
            for folder in (ROOT / controller / self.name, ROOT / controller / self.name / "kubepods"):
                folder.mkdir(exist_ok=True)
                for name in _CPUSET if controller == "cpuset" else ():
                    (folder / name).write_text((ROOT / controller / name).read_text())

    def remove(self) -> None:
        """Remove the trees once their processes are gone; raises LabError where one stays."""
        wait_until(self._removed, f"the cgroups {self.name} are empty and removed", timeout_s=10, every_s=0.05)

    def processes(self, pod_uid: str) -> list[int]:
        """Return the processes of a Pod, the pause container's included, as the machine counts."""
        found = []
        for pod in (ROOT / "memory" / self.name).glob(f"kubepods/**/pod{pod_uid}"):
            for folder, _, _ in os.walk(pod):
                try:
                    found += [int(pid) for pid in (Path(folder) / "cgroup.procs").read_text().split()]
                except OSError:  # the container has ended meanwhile
                    continue
        return found

    def _removed(self) -> bool:
        for tree in self.trees:
            for folder, _, _ in os.walk(tree, topdown=False):
                try:
                    Path(folder).rmdir()
                except OSError:  # a process in it has not ended yet
                    continue
        return not any(tree.exists() for tree in self.trees)


def write_pretended_machine(folder: Path, cpus: int, memory_mib: int) -> None:
    """Write the files from which a kubelet (cadvisor) learns how many CPUs and how much memory its machine has."""
    shutil.rmtree(folder, ignore_errors=True)
    span, kib = f"0-{cpus - 1}\n", memory_mib << 10
    files = {f"cpu/{name}": span for name in ("online", "possible", "present")}
    files |= {"node/online": "0\n", "node/possible": "0\n", "node/node0/cpulist": span, "node/node0/distance": "10\n"}
    files["node/node0/meminfo"] = f"Node 0 MemTotal:       {kib} kB\nNode 0 MemFree:       {kib} kB\n"
    sizes = {"MemTotal": kib, "MemFree": kib, "MemAvailable": kib}
    sizes |= dict.fromkeys(("Buffers", "Cached", "SwapTotal", "SwapFree"), 0)
    files["meminfo"] = "".join(f"{name}:  {size} kB\n" for name, size in sizes.items())
    files["meminfo"] += "HugePages_Total: 0\nHugepagesize: 2048 kB\n"
    files["cpuinfo"] = "".join(_cpuinfo(cpu, cpus) for cpu in range(cpus))
    for cpu in range(cpus):
        for place in (f"cpu/cpu{cpu}", f"node/node0/cpu{cpu}"):
            topology = {"core_id": cpu, "physical_package_id": 0, "thread_siblings_list": cpu, "book_id": -1}
            topology |= {"drawer_id": -1}
            files |= {f"{place}/topology/{name}": f"{value}\n" for name, value in topology.items()}
            files |= {f"{place}/topology/core_siblings_list": span, f"{place}/online": "1\n"}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _cpuinfo(cpu: int, cpus: int) -> str:
    return (
        f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\nmodel name\t: Lab CPU\ncpu MHz\t\t: 2000.000\n"
        f"cache size\t: 1024 KB\nphysical id\t: 0\nsiblings\t: {cpus}\ncore id\t\t: {cpu}\ncpu cores\t: {cpus}\n\n"
    )
