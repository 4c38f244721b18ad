"""Change Nodes that Slurm knows through the extender alone: resize, relabel, remove GPUs, delete, recreate.

The Nodes match `nodes.external`. After all changes Slurm must have them as they are in Kubernetes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from extender.domain.nodes.external_nodes import marked
from extender.domain.wellknown import DRAIN_PREFIX
from simulator.actors.pacing import repeat_at_random
from simulator.cluster import SCHEDULER, SimCluster
from simulator.event_log import node_subject
from simulator.invariants.checker import READ_BEFORE_S, InvariantChecker
from simulator.invariants.invariant import Invariant
from simulator.kube.objects import Json
from simulator.kube.pods import FINISHED_PHASES
from simulator.kube.resources import NODES, PODS
from simulator.kube.storage import ObjectKey
from simulator.slurm.records import SimNode

LABELS = {"machines": "registered"}
SHELF, NODE_SET = "shelf", "machines"
EXTERNAL_NODES_CONFIG = (
    f"external: {{selector: {{matchLabels: {{machines: registered}}}}, nodeSets: [{NODE_SET}], settle: 5s, "
    f'features: [{{label: {SHELF}, feature: "shelf-{{value}}"}}]}}'
)
"""The site's settings of `nodes` in the configuration."""

GPU = "nvidia.com/gpu"
SIZES, GPUS = ("8", "16", "32"), ("0", "2", "4")
WHOLE = {"cpu": "16", GPU: "4"}
NAMES = ("m1", "m2")


@dataclass
class ExternalNodeChanges:
    """Change one external Node about every `every_s`."""

    cluster: SimCluster
    rng: random.Random
    checker: InvariantChecker
    every_s: float
    done: Counter[str] = field(default_factory=Counter)
    stopped: bool = False

    def begin(self) -> None:
        """Create the external Nodes."""
        self.cluster.slurm.controller.node_listeners.append(self._deleted)
        for name in NAMES:
            self._add(name)

    async def run(self) -> None:
        """Run until cancelled."""
        await repeat_at_random(self.rng, self.every_s, lambda: self._act(self.rng.choice(NAMES)), lambda: self.stopped)

    def heal(self) -> None:
        """Stop, and give each external Node its full size and label."""
        self.stopped = True
        for name in NAMES:
            self._add(name)
            self._edit(name, lambda node: node["metadata"]["labels"].update(LABELS))
            self._edit(name, lambda node: node["status"]["allocatable"].update(WHOLE))

    def wrong(self) -> list[str]:
        """Return the external Nodes that differ in Slurm."""
        return [name for name in NAMES if not self._as_wanted(name)]

    def _act(self, name: str) -> None:
        rng = self.rng
        node = self.cluster.kube.node(name)
        if node is None:
            return
        what = rng.choice(["resized", "resized", "GPUs", "labelled", "taken out", "deleted"])
        match what:
            case "resized":
                size = rng.choice(SIZES)
                self._edit(name, lambda one: one["status"]["allocatable"].update(cpu=size))
            case "GPUs":
                count = rng.choice(GPUS)
                self._edit(name, lambda one: one["status"]["allocatable"].update({GPU: count}))
            case "labelled":
                shelf = rng.choice("abc")
                self._edit(name, lambda one: one["metadata"]["labels"].update({SHELF: shelf}))
            case "taken out":
                self._edit(name, lambda one: one["metadata"]["labels"].pop("machines", None))
                self._later(lambda: self._edit(name, lambda one: one["metadata"]["labels"].update(LABELS)))
            case _:
                if self._pods_on(name) or self.checker.operators.has_in_hand(name):
                    return  # an autoscaler takes none away that is used
                self.cluster.delete_node(name)
                self._later(lambda: self._add(name))
        self.done[what] += 1
        self.checker.event_log.add(f"a machine: {what}", node_subject(name))

    def _later(self, act: Callable[[], None]) -> None:
        def unless_healed() -> None:
            if not self.stopped:
                act()

        self.cluster.slurm.controller.timers.after(self.rng.uniform(5.0, 300.0), unless_healed)

    def _add(self, name: str) -> None:
        if self.cluster.kube.node(name) is None:
            more = {"ephemeral-storage": "40G", "hugepages-2Mi": "1Gi"}
            self.cluster.kube.add_node(
                name, cpu="16", memory="64000Mi", gpus=4, labels=LABELS, address="10.0.0.9", more=more
            )
            self.cluster.kubelets.bring_back(name)

    def _edit(self, name: str, edit: Callable[[Json], object]) -> None:
        if self.cluster.kube.node(name) is not None:
            self.cluster.kube.change(ObjectKey(NODES, "", name), lambda node: (edit(node), None)[1])

    def _pods_on(self, name: str) -> list[Json]:
        pods = self.cluster.kube.storage.of(PODS)
        return [
            pod for pod in pods if pod["spec"].get("nodeName") == name and pod["status"]["phase"] not in FINISHED_PHASES
        ]

    def _deleted(self, node: SimNode) -> None:
        """Check the deletion of a Slurm node by a client."""
        self.checker.checked[Invariant.NODES] += 1
        by_extender = bool(marked(node.features)[1]) and node.drained and node.reason.startswith(DRAIN_PREFIX)
        # Slurm has no precondition for a deletion: a drain may have come since the extender read the node.
        since = self.cluster.slurm.controller.timers.wall() - self.checker.operators.drained_at.get(node.name, 0.0)
        # Only Pods of the extender: where Slurm has no node, it allocates nothing that others use.
        pods = [pod for pod in self._pods_on(node.name) if pod["spec"]["schedulerName"] == SCHEDULER]
        if pods or not (by_extender or since <= READ_BEFORE_S):
            self.checker.violate(Invariant.NODES, f"it was deleted ({node.reason!r})", node_subject(node.name))
        if self.checker.operators.drains.pop(node.name, None) is not None:
            self.checker.windows["an end of a node that was drained after the look before it"] += 1
        self.checker.event_log.add("deleted in Slurm", node_subject(node.name))

    def _as_wanted(self, name: str) -> bool:
        node, has = self.cluster.kube.node(name), self.cluster.slurm.controller.nodes.get(name)
        if node is None or has is None:
            return False
        size, labels = node["status"]["allocatable"], node["metadata"]["labels"]
        features = {NODE_SET} | ({f"shelf-{labels[SHELF]}"} if SHELF in labels else set())
        gpus = {"gpu": int(size[GPU])} if int(size.get(GPU, "0")) else {}
        other = {one for one in has.features if not one.startswith("slurm-extender:")}
        return (str(has.cpus), dict(has.gres), other) == (size["cpu"], gpus, features)
