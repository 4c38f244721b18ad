"""dra-driver-cpu on a node with a real kubelet: it pins containers to the CPUs that an allocation names."""

from pathlib import Path

from lab import build_kubernetes
from lab.build_kubernetes import GoBuild, required_version
from lab.node import Node
from lab.process import Daemon

MODULE = Path(__file__).resolve().parent / "dra_driver_cpu"
DRIVER = "github.com/kubernetes-sigs/dra-driver-cpu"
PROGRAM = "dracpu"
CLASS = "dra.cpu"
"""Its DeviceClass and its name."""


def cpu_driver_build() -> GoBuild:
    """Return how the driver is built, unmodified; 3 to 4 minutes on two cores from nothing."""
    version = required_version(MODULE / "go.mod", DRIVER)
    return GoBuild(f"dra-driver-cpu-{version}", MODULE, (f"{DRIVER}/cmd/{PROGRAM}",), "-s -w")


def cpu_driver(node: Node, kubeconfig: Path) -> Daemon:
    """Return the driver of a node; build it unless it is cached. All CPUs are one device, and a cpuset says which."""
    program = build_kubernetes.build(cpu_driver_build()) / PROGRAM
    command = [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={node.name}",
        "--bind-address=127.0.0.1:8081",
        "--cpu-device-mode=grouped",
        "--group-by=machine",
        "--v=4",
    ]
    return Daemon(f"cpu-driver-{node.name}", node.sandbox, command, log=node.home / "cpu-driver.log")
