"""A node with a real kubelet, and with a slurmd: one sandbox is the machine on which both run their processes.

Its PID and mount namespaces make a power cut one SIGKILL, and give each kubelet the paths that it has built in (the
socket of device plugins). Slurm's chroot is mounted inside, so jobs and containers are processes of one namespace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.build_node import NodePrograms
from lab.cgroups import NodeCgroups, write_pretended_machine
from lab.clock import wait_until
from lab.errors import LabError
from lab.images import BUSYBOX_IMAGE
from lab.network import add_bridge
from lab.node_daemons import CONTAINERD_SOCKET, containerd, device_plugin, kubelet, write_kubelet_config
from lab.process import Daemon
from lab.sandbox import Sandbox
from lab.slurm_conf import SlurmNode

MOUNTS = """
home=$1
mount -t proc proc /proc
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=755 lib /var/lib
mkdir -p /var/lib/kubelet /var/lib/containerd /var/lib/cni
mount --bind "$home/kubelet" /var/lib/kubelet
mount --bind "$home/containerd" /var/lib/containerd
mount -t tmpfs -o mode=755 log /var/log
mkdir -p /var/log/pods /var/log/containers /run/cdi /run/containerd /run/own
# The kubelet sets these for the whole machine; here it finds them as it wants them.
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
    file=/run/own/$(basename "${setting%%=*}")
    echo "${setting#*=}" > "$file"
    mount --bind "$file" "/proc/sys/${setting%%=*}"
done
# Another one at each start: the kubelet reports a reboot.
cat /proc/sys/kernel/random/uuid > /run/own/boot_id
mount --bind /run/own/boot_id /proc/sys/kernel/random/boot_id
if [ -d "$home/machine" ]; then
    mount --bind "$home/machine/node" /sys/devices/system/node
    mount --bind "$home/machine/cpu" /sys/devices/system/cpu
    mount --bind "$home/machine/meminfo" /proc/meminfo
    mount --bind "$home/machine/cpuinfo" /proc/cpuinfo
fi
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletOptions:
    """Settings of the kubelets of a lab.

    ``config`` is laid over the lab's KubeletConfiguration. ``devices`` is the number of GPUs that a device plugin
    offers; 0 starts none. ``real_size`` shows the kubelet the CPUs and the memory of this machine instead of those of
    the Slurm node: the static CPU manager can only use CPUs that exist.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    devices: int = 0
    real_size: bool = False


class Node:
    """One machine: a sandbox with containerd, a kubelet, and whatever else is started in it.

    ``chroot`` and ``work`` are Slurm's, as for :class:`lab.sandbox.Sandbox`. ``index``, from 1 on, gives it an address.
    """

    def __init__(
        self,
        like: SlurmNode,
        index: int,
        *,
        programs: NodePrograms,
        chroot: Path,
        work: Path,
        options: KubeletOptions,
    ) -> None:
        self.name = like.name
        self.home = work / "machines" / like.name
        self.cgroups = NodeCgroups(f"{work.name}-{like.name}")
        self.sandbox = Sandbox(
            chroot,
            work,
            devices=[f"nvidia{gpu}" for gpu in range(like.gpus)],
            cgroups=self.cgroups.trees,
        )
        self._index = index
        self._programs = programs
        self._options = options
        for folder in ("kubelet", "containerd"):
            (self.home / folder).mkdir(parents=True)
        if not options.real_size:
            write_pretended_machine(self.home / "machine", like.cpus, like.memory_mb)
        add_bridge(index)
        self.containerd = containerd(self.sandbox, programs, self.name, index, self.home)
        self.device_plugin: Daemon | None = None
        self._kubelet: Daemon | None = None
        self._images = False

    @property
    def kubelet(self) -> Daemon:
        """Return the kubelet; raise LabError before :meth:`join` was called."""
        if self._kubelet is None:
            raise LabError(f"node {self.name} has joined no cluster yet")
        return self._kubelet

    def power_on(self) -> None:
        """Start the sandbox and containerd in it; the kubelet starts with :meth:`join` or :meth:`boot`."""
        self.cgroups.make()
        self.sandbox.start()
        self.sandbox.run_outside(["/bin/sh", "-euc", MOUNTS, "sh", str(self.home)])
        # Where auth/slurm of the slurmd that runs here has its socket.
        self.sandbox.run(["mkdir", "/run/slurm"])
        self.containerd.launch()

    def join(self, kubeconfig: Path, labels: Mapping[str, str]) -> None:
        """Start a kubelet that registers this node with the API server of ``kubeconfig``."""
        self._wait_containerd()
        self._kubelet = kubelet(
            self.sandbox,
            self._programs,
            self.name,
            self._index,
            self.home,
            cgroup=self.cgroups.name,
            kubeconfig=kubeconfig,
            labels=labels,
            config=self._options.config,
        )
        self._kubelet.launch()
        if self._options.devices:
            self.device_plugin = device_plugin(
                self.sandbox, self._programs, self.name, self.home, self._options.devices
            )

    def wait_ready(self) -> None:
        """Wait until the kubelet is healthy, and start the device plugin, which registers with it."""
        self.kubelet.wait_ready()
        if self.device_plugin is not None:
            self.device_plugin.start()

    def configure(self, config: Mapping[str, Any]) -> None:
        """Restart the kubelet with ``config`` laid over its own configuration until the next call of this."""
        self.kubelet.stop()
        write_kubelet_config(self._index, self.home, self.cgroups.name, {**self._options.config, **config})
        self.kubelet.start()

    def power_cut(self) -> None:
        """Kill every process of the node at once: kubelet, containers, slurmd, jobs."""
        self.sandbox.stop()
        self.cgroups.remove()

    def boot(self) -> None:
        """Start the node after a power cut, with a boot ID of its own; its slurmd is started separately."""
        self.power_on()
        self._wait_containerd()
        self.kubelet.launch()
        self.wait_ready()

    def stop(self) -> None:
        """End everything; harmless when nothing runs."""
        self.sandbox.stop()
        self.cgroups.remove()

    def processes(self, pod_uid: str) -> list[int]:
        """Return the processes of a Pod as the machine counts, also those of a Pod that the API server forgot."""
        return self.cgroups.processes(pod_uid)

    def _wait_containerd(self) -> None:
        self.containerd.wait_ready()
        if self._images:
            return
        for name in ("pause", "busybox"):
            archive = str(self._programs.debian / f"{name}.tar")
            self._ctr("images", "import", "--local", archive)
        wait_until(lambda: BUSYBOX_IMAGE in self._ctr("images", "ls", "-q"), "the images are imported", timeout_s=30)
        self._images = True

    def _ctr(self, *words: str) -> str:
        command = [str(self._programs.containerd / "ctr"), "-a", CONTAINERD_SOCKET, "-n", "k8s.io", *words]
        return self.sandbox.run_outside(command, timeout_s=120)
