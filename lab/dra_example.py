"""The example driver for dynamic resource allocation: how it is built, and how it is started on a real node.

It publishes devices in ResourceSlices, and gives each container the names of its own as variables, by CDI. Only
suites of `make prove` use it.
"""

from pathlib import Path

from lab import build_kubernetes
from lab.build_kubernetes import GoBuild, required_version
from lab.node import Node
from lab.process import Daemon

MODULE = "sigs.k8s.io/dra-example-driver"
PROGRAM = "dra-example-kubeletplugin"


def dra_example_build() -> GoBuild:
    """Return how the driver is built; 3 to 4 minutes on two cores from nothing."""
    module = Path(__file__).resolve().parent / "dra_driver"
    version = required_version(module / "go.mod", MODULE)
    return GoBuild(f"dra-example-driver-{version}", module, (f"{MODULE}/cmd/{PROGRAM}",), "-s -w")


def dra_example(node: Node, kubeconfig: Path, count: int) -> Daemon:
    """Return the driver of a node that has joined a cluster: ``count`` devices ``gpu-0`` and so on, with an index."""
    program = build_kubernetes.build(dra_example_build()) / PROGRAM
    command = [
        str(program),
        f"--node-name={node.name}",
        f"--num-devices={count}",
        "--cdi-root=/run/cdi",
        f"--kubeconfig={kubeconfig}",
    ]
    return Daemon(f"dra-example-{node.name}", node.sandbox, command, log=node.home / "dra-example.log")
