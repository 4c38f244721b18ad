"""Draw a site: its nodes and partitions, the configuration of its Slurm, and delays."""

from __future__ import annotations

import random
from dataclasses import dataclass

from extender.domain.wellknown import MANAGED_TAINT, NATIVE_JOB_TAINT
from simulator.actors.external_nodes import EXTERNAL_NODES_CONFIG as MACHINES
from simulator.kube.objects import Json
from simulator.slurm.job_lifecycle import SimConfig
from simulator.slurm.records import SimNode, SimPartition
from simulator.slurm.release import SimRelease

FEATURE = "nvme"
"""The feature of the nodes with GPUs, which are every second one."""


@dataclass(frozen=True, slots=True)
class SiteProfile:
    """One site."""

    nodes: tuple[SimNode, ...]
    partitions: tuple[SimPartition, ...]
    config: SimConfig
    modes: tuple[str, ...]
    """The modes that Pods may request."""

    external_anywhere: bool
    container_start_s: float
    wishes: tuple[str, ...] = ()
    """Parts of `nodes` in the configuration."""

    @property
    def tainted(self) -> bool:
        """Return whether Nodes have taints that placed Pods must tolerate."""
        return any(wish.startswith(("managedTaint:", "nativeJobTaint:")) for wish in self.wishes)

    @property
    def machines(self) -> bool:
        """Return whether there are external Nodes, which the extender registers in Slurm."""
        return MACHINES in self.wishes

    def configured(self, config: str) -> str:
        """Return the configuration with the settings of the site."""
        waits, signal = f"{self.config.kill_wait_s:g}s", str(self.config.send_user_signal).lower()
        anywhere = str(self.external_anywhere).lower()
        config = config.replace("user: root", f"user: root, killWait: {waits}, sendUserSignal: {signal}")
        wishes = ", ".join(self.wishes)
        if "nodes: {" in config:
            config = config.replace("nodes: {", f"nodes: {{{wishes}{', ' if wishes else ''}")
        elif wishes:
            config += f"nodes: {{{wishes}}}\n"
        return config + f"jobs: {{externalAnywhere: {anywhere}}}\n"


def has_external_nodes(seed: int, release: SimRelease) -> bool:
    """Draw whether the site has external Nodes."""
    rng = random.Random(f"the machines of seed {seed}")  # noqa: S311 - everything is to come again
    return release.renews_nodes and rng.random() < 0.4


def draw_site(rng: random.Random, nodes: int, release: SimRelease, *, machines: bool = False) -> SiteProfile:
    """Draw a site with `nodes` Slurm nodes, and external Nodes or not."""
    external = 0
    if release.shows_external and rng.random() < 0.4:
        external = rng.choice([1, nodes])
    # Without the signal a node without slurmd is asked for an answer at each warning, and given up.
    signal = bool(external) or machines or rng.random() < 0.3
    anywhere = release.knows_external and rng.random() < 0.3
    modes = ["auto"] if external == nodes else ["auto", "batch", "allocation"]
    return SiteProfile(
        tuple(_node(number, external=number > nodes - external) for number in range(1, nodes + 1)),
        (
            SimPartition("batch", default=True, priority_tier=1, max_time_minutes=240),
            SimPartition("graced", priority_tier=1, grace_time_s=30),
            SimPartition("requeued", priority_tier=1, preempt_mode="REQUEUE"),
            SimPartition("urgent", priority_tier=10),
        ),
        _config(rng, signal),
        (*modes, *(["external"] if external or anywhere or machines else [])),
        anywhere,
        rng.choice([0.1, 1.0, 8.0]),
        (*filter(None, map(rng.choice, _WISHES)), *([MACHINES] if machines else [])),
    )


_WISHES = (
    ("", "", "drain: {cordoned: false, notReadyAfter: null, deleted: false}", "drain: {notReadyAfter: 5s}"),
    (
        "",
        "",
        "unavailableTaint: {effect: NoSchedule}",
        "unavailableCordon: true",
        "unavailableTaint: {effect: NoSchedule}, unavailableCordon: true",
    ),
    ("", "", "managedTaint: {effect: NoSchedule}", "managedTaint: {effect: NoExecute}"),
    ("", "", "nativeJobTaint: {effect: NoSchedule}"),
)
"""One of each row is drawn; "" keeps the default."""


def add_tolerations(obj: Json) -> None:
    """Add tolerations for the extender's taints to a Pod, as an admission webhook does."""
    if obj["kind"] == "Pod":
        tolerations = obj["spec"].setdefault("tolerations", [])
        tolerations += [{"key": key, "operator": "Exists"} for key in (MANAGED_TAINT, NATIVE_JOB_TAINT)]


def _node(number: int, *, external: bool) -> SimNode:
    return SimNode(
        f"n{number}",
        cpus=16,
        memory_mb=64_000,
        gres={"gpu": 4} if number % 2 else {},
        features=(FEATURE,) if number % 2 else (),
        external=external,
    )


def _config(rng: random.Random, signal: bool) -> SimConfig:
    """Draw the delays of the site's slurmctld: settings of slurm.conf, and constants of Slurm."""
    return SimConfig(
        schedule_delay_s=rng.choice([0.05, 0.3, 3.0]),
        backfill_interval_s=rng.choice([2.0, 5.0, 30.0]),
        limit_interval_s=rng.choice([5.0, 30.0]),
        preempt_again_s=rng.choice([14.0, 16.0]),
        grace_overrun_s=rng.choice([0.5, 5.0, 9.0]),
        resume_silence_s=rng.choice([0.1, 0.5, 3.0]),
        kill_wait_s=rng.choice([20.0, 30.0, 60.0]),
        min_job_age_s=rng.choice([60.0, 300.0, 300.0]),
        message_timeout_s=rng.choice([5.0, 10.0, 30.0]),
        send_user_signal=signal,
    )
