"""Edit the site's PodPolicy while the extender runs: stricter, looser, invalid, missing."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from extender.domain.jobs.identity import decode_mark
from extender.domain.translation.translate import NOT_SERVED
from simulator.actors.pacing import repeat_at_random
from simulator.cluster import SimCluster
from simulator.event_log import pod_subject
from simulator.invariants.checker import InvariantChecker
from simulator.invariants.invariant import Invariant
from simulator.kube.objects import Json

HEAD = "apiVersion: slurm-extender.io/v1alpha1\nkind: PodPolicy\n"
SETTING = "slurm-extender.io/"
DIFFERS = "must agree"
"""Part of a fault of a gang whose members request different settings."""

TAKEN_UP_S = 10.0
"""Seconds after a change within which the extender may still go by the policy before."""


@dataclass(frozen=True, slots=True)
class PolicyVariant:
    """One text of the policy. `allows` returns whether it admits a Pod with these settings."""

    text: str
    allows: Callable[[Mapping[str, str]], bool] = lambda _requested: True


def _small(requested: Mapping[str, str]) -> bool:
    return requested.get("partition", "batch") == "batch"


def _scripted(requested: Mapping[str, str]) -> bool:
    return requested.get("mode", "auto") in {"auto", "batch"}


def _short(requested: Mapping[str, str]) -> bool:
    return int(requested.get("time-limit", "0")) <= 5


OPEN = PolicyVariant("rules: []\n")
VARIANTS = (
    OPEN,
    PolicyVariant("rules: [{name: all, defaults: {nice: 50, comment: of the site}}]\n"),
    PolicyVariant("rules: [{name: all, defaults: {timeLimit: 30, partition: graced}}]\n"),
    PolicyVariant("rules: [{name: few, allow: {partition: ['', batch]}}]\n", _small),
    PolicyVariant(
        "rules: [{name: modes, allow: {mode: [auto, batch]}}]\n",
        _scripted,
    ),
    PolicyVariant("rules: [{name: short, allow: {timeLimit: {atMost: 5}}}]\n", _short),
    PolicyVariant("rules: [{name: none, allow: {partition: [], mode: []}}]\n", lambda _requested: False),
)
BROKEN = ("rules: {\n", "rules: [{name: 5}]\n", "rules: [{name: all, defaults: {qos: 'a b'}}]\n", None)
"""Invalid policies; `None`: the file is missing."""


def has_policies(seed: int) -> bool:
    """Draw whether the site has a policy file."""
    return random.Random(f"the policies of seed {seed}").random() < 0.4  # noqa: S311 - everything is to come again


@dataclass
class PolicyEditor:
    """Write another policy about every `every_s`, until `heal`. It has a random generator of its own."""

    cluster: SimCluster
    rng: random.Random
    checker: InvariantChecker
    file: Path
    every_s: float
    done: Counter[str] = field(default_factory=Counter)
    stopped: bool = False
    _last: PolicyVariant = OPEN
    """The last valid policy."""

    _usable: bool = True
    _since: float = 0.0

    @property
    def setting(self) -> str:
        """Return the setting that names the policy file."""
        return f"policyFile: {self.file}, "

    def begin(self) -> None:
        """Write the first policy and start to check it."""
        self._write(OPEN)
        self.checker.also.append(self._check)

    async def run(self) -> None:
        """Run until cancelled."""
        await repeat_at_random(self.rng, self.every_s, self._act, lambda: self.stopped)

    def heal(self) -> None:
        """Stop, and write a policy that allows everything."""
        self.stopped = True
        self._write(OPEN)

    def _act(self) -> None:
        if self.rng.random() < 0.2:
            text = self.rng.choice(BROKEN)
            self._usable, self._since = False, asyncio.get_running_loop().time()
            if text is None:
                self.file.unlink(missing_ok=True)
            else:
                self.file.write_text(HEAD + text, encoding="utf-8")
            self.done["broken"] += 1
            self.checker.event_log.add(f"the policy cannot be used: {text!r}")
        else:
            self.done["changed"] += 1
            self._write(self.rng.choice(VARIANTS))

    def _write(self, policy: PolicyVariant) -> None:
        self.file.write_text(HEAD + policy.text, encoding="utf-8")
        self._last, self._usable, self._since = policy, True, asyncio.get_running_loop().time()
        self.checker.event_log.add(f"the policy: {policy.text.strip()}")

    def _check(self) -> None:
        """Check that a waiting Pod has a job if the policy allows it, and none otherwise.

        While the file is invalid, the policy in force depends on when the extender started.
        """
        if not self._usable or asyncio.get_running_loop().time() - self._since < TAKEN_UP_S:
            return
        waiting = {
            mark.workload: job.job_id
            for job in self.cluster.live_jobs()
            if job.pending and (mark := decode_mark(job.admin_comment)) is not None
        }
        for pod in self.cluster.pods():
            self._check_one(pod, waiting)

    def _check_one(self, pod: Json, waiting: Mapping[str, int]) -> None:
        meta = pod["metadata"]
        p = self.cluster.extender.engine.placeholders.by_pod(meta["uid"])
        if p is None or pod["spec"].get("nodeName") or "deletionTimestamp" in meta:
            return
        settings = meta.get("annotations") or {}
        requested = {key.removeprefix(SETTING): value for key, value in settings.items() if key.startswith(SETTING)}
        allowed, about, key = self._last.allows(requested), pod_subject(meta["name"]), f"{meta['uid']} {self._since}"
        job = waiting.get(p.key)
        text = f"job {job} waits for it, which the policy does not allow"
        self.checker.hold(Invariant.POLICY, f"{key} has", not allowed and job is not None, text, about)
        faults = [fault for fault in p.faults if NOT_SERVED not in fault and DIFFERS not in fault]
        # A gang is refused for the settings of any member.
        faults = [fault for fault in faults if not fault.startswith("Pod ") or f"/{meta['name']}: " in fault]
        text = f"the policy allows it, and it is refused: {'; '.join(faults)}"
        self.checker.hold(Invariant.POLICY, f"{key} lacks", allowed and bool(faults), text, about)
