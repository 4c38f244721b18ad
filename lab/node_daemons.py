"""containerd, kubelet and a device plugin: their configuration and how they are started in the sandbox of a node."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lab.build_node import NodePrograms
from lab.images import PAUSE_IMAGE
from lab.network import node_address, pod_subnet
from lab.probe import answers_ok
from lab.process import Daemon
from lab.sandbox import Sandbox

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
KUBELET_PORT, HEALTH_PORT = 10250, 10248
NODE_STATUS_EVERY = "1s"
"""How often a kubelet reports what its Node can allocate; with the default of 10 s tests of devices wait for it."""

CONTAINERD_CONFIG = """\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "{socket}"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
enable_cdi = true
cdi_spec_dirs = ["/run/cdi"]
# Without CAP_SYS_RESOURCE runc cannot lower the oom score of a container.
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{cni}"]
conf_dir = "{home}/cni"
"""


STARTS = "the lab: containerd starts"
"""A line of containerd's log before each start."""


def containerd(sandbox: Sandbox, programs: NodePrograms, name: str, index: int, home: Path) -> Daemon:
    """Write the configuration of containerd and of the Pods' network into ``home``; return the daemon."""
    (home / "cni").mkdir(exist_ok=True)
    ranges = [[{"subnet": pod_subnet(index)}]]
    ipam = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    network = {"cniVersion": "1.0.0", "name": "lab", "plugins": [{"type": "ptp", "mtu": 1400, "ipam": ipam}]}
    (home / "cni" / "10-lab.conflist").write_text(json.dumps(network))
    config = home / "containerd.toml"
    config.write_text(
        CONTAINERD_CONFIG.format(
            socket=CONTAINERD_SOCKET, pause=PAUSE_IMAGE, runc=programs.runc, cni=programs.cni, home=home
        )
    )
    environment = {"PATH": programs.path}
    return Daemon(
        f"containerd-{name}",
        sandbox,
        [str(programs.containerd / "containerd"), "--config", str(config)],
        log=home / "containerd.log",
        environment=environment,
        prepare=lambda: _mark_start(home / "containerd.log"),
        # It answers nothing before it has loaded its plugins; a client asks it over its socket in the sandbox.
        ready=lambda: "containerd successfully booted" in _last_start(home / "containerd.log"),
    )


def kubelet(
    sandbox: Sandbox,
    programs: NodePrograms,
    name: str,
    index: int,
    home: Path,
    *,
    cgroup: str,
    kubeconfig: Path,
    labels: Mapping[str, str],
    config: Mapping[str, Any],
) -> Daemon:
    """Write the configuration of a kubelet, with ``config`` laid over the lab's own; return the daemon."""
    address = node_address(index)
    path = write_kubelet_config(index, home, cgroup, config)
    command = [
        str(programs.kubelet / "kubelet"),
        f"--config={path}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={name}",
        f"--node-ip={address}",
        "--root-dir=/var/lib/kubelet",
        "--v=2",
    ]
    if labels:
        command.append(f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}")
    url = f"http://{address}:{HEALTH_PORT}"
    return Daemon(
        f"kubelet-{name}",
        sandbox,
        command,
        log=home / "kubelet.log",
        environment={"PATH": programs.path},
        url=url,
        ready=lambda: answers_ok(f"{url}/healthz"),
        ready_timeout_s=120,
    )


def write_kubelet_config(index: int, home: Path, cgroup: str, config: Mapping[str, Any]) -> Path:
    """Write a KubeletConfiguration, with ``config`` laid over the lab's own, and return its path."""
    path = home / "kubelet.yaml"
    path.write_text(yaml.safe_dump({**_kubelet_config(node_address(index), cgroup), **config}, sort_keys=False))
    return path


def device_plugin(sandbox: Sandbox, programs: NodePrograms, name: str, home: Path, count: int) -> Daemon:
    """Return a device plugin that offers ``count`` devices of the resource ``nvidia.com/gpu``."""
    command = [str(programs.kubelet / "device-plugin"), f"-count={count}"]
    return Daemon(f"device-plugin-{name}", sandbox, command, log=home / "device-plugin.log")


def _kubelet_config(address: str, cgroup: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "port": KUBELET_PORT,
        "healthzBindAddress": address,
        "healthzPort": HEALTH_PORT,
        # Logs and exec without certificates, inside a network of their own.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        # From 1.35 on a kubelet refuses cgroup v1 unless it is set to false.
        "failCgroupV1": False,
        "failSwapOn": False,
        # The machine may have fewer CPUs than the node: no cpuset could hold them.
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "nodeStatusUpdateFrequency": NODE_STATUS_EVERY,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "imageGCHighThresholdPercent": 100,
        "evictionPressureTransitionPeriod": "1s",
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "serializeImagePulls": False,
    }


def _mark_start(log: Path) -> None:
    """Note that what the log says until here is of an earlier process: of the same node before a power cut."""
    with log.open("a", encoding="utf-8") as file:
        print(STARTS, file=file)


def _last_start(log: Path) -> str:
    return log.read_text(errors="replace").rpartition(STARTS)[2] if log.exists() else ""
