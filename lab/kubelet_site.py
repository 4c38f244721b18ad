"""A whole site whose Pods run: real kubelets on nodes that are shared with slurmds, in a network of their own."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.build_node import node_programs
from lab.kube import Kubernetes
from lab.network import isolated_network
from lab.node import KubeletOptions, Node
from lab.sandbox import Sandbox
from lab.site import Site
from lab.slurm import Machines, Slurm
from lab.topology import Topology


class KubeletSite(Site):
    """A site in which every node with a slurmd that Kubernetes knows by the same name is a :class:`lab.node.Node`.

    External nodes are machines with a kubelet alone. The other Nodes of the topology are kwok's. The block must end in
    the thread that began it, and only threads started inside it reach the site (:mod:`lab.network`).
    """

    def __init__(
        self,
        slurm_release: str = "24.11",
        *,
        topology: Topology,
        real: Sequence[str],
        workdir: Path,
        kubelets: KubeletOptions | None = None,
        config: Mapping[str, Mapping[str, Any]] | None = None,
        audit: bool = False,
    ) -> None:
        super().__init__(slurm_release, topology=topology, config=config, audit=audit, workdir=workdir)
        self._real = tuple(real)
        self._kubelets = kubelets or KubeletOptions()
        self.nodes: dict[str, Node] = {}

    def _start(self) -> None:
        self._programs = node_programs()
        self._stack.enter_context(isolated_network())
        super()._start()

    def _slurm(self, machines: Machines | None = None) -> Slurm:
        return super()._slurm(machines or self._power_on)

    def _power_on(self, chroot: Path, home: Path) -> dict[str, Sandbox]:
        """Start the machines, in which Slurm then starts its slurmds; their network is this thread's."""
        known = {node.name: node for node in (*self.topology.nodes, *self.topology.external_nodes)}
        for index, name in enumerate(self._real, start=1):
            node = Node(known[name], index, programs=self._programs, chroot=chroot, work=home, options=self._kubelets)
            self.nodes[name] = node
            self._stack.callback(node.stop)
            node.power_on()
        return {name: node.sandbox for name, node in self.nodes.items()}

    def _kubernetes(self, kubelets: Sequence[str] = ()) -> Kubernetes:
        return super()._kubernetes(kubelets or self._real)

    def _register_nodes(self) -> None:
        labels = {node.name: node.labels for node in self.topology.kube_nodes}
        for node in self.topology.kube_nodes:
            if node.name not in self.nodes:
                self._add_node(node)
        for name, machine in self.nodes.items():
            machine.join(self.kube.kubeconfig_for(f"system:node:{name}"), labels[name])
        for machine in self.nodes.values():
            machine.wait_ready()
        self.kube.wait_nodes_ready(self._real)

    def probe_folder(self, node: str) -> Path:
        """Return the folder that containers (by hostPath) and jobs (as ``/lab/probe/<node>``) of a node share.

        It holds the program ``probe``, see ``kubelet/probe/main.go``.
        """
        folder = self.slurm.home / "probe" / node
        if not folder.exists():
            folder.mkdir(parents=True)
            shutil.copy(self._programs.kubelet / "probe", folder)
        return folder

    def boot(self, name: str) -> None:
        """Start a node after :meth:`lab.node.Node.power_cut`: its kubelet, and its slurmd where it has one."""
        self.nodes[name].boot()
        if name in {node.name for node in self.topology.nodes}:
            self.slurm.start_slurmd(name)
