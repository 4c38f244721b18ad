"""Register Nodes in Slurm as external nodes, and keep each registration equal to its Node.

Nothing is remembered: which nodes are the extender's stands in Slurm (`external_nodes.mark`), what is wanted follows
from the Node and its Pods, and the difference is the work that is left. A restart resumes it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from extender.controllers.nodes.controller import NodeController
from extender.controllers.nodes.desired_nodes import DesiredNodes, NodeLister
from extender.controllers.nodes.drains import NODE_CAUSE
from extender.domain.backoff import Backoff
from extender.domain.cluster import SlurmNode, SlurmSnapshot
from extender.domain.nodes.external_changes import ExternalNodeChange, Step, compare
from extender.domain.nodes.external_nodes import DesiredNode, ExternalRules, SettleDelays
from extender.domain.nodes.machine import DrainState
from extender.domain.nodes.refusals import NodeRefusal, cause_of, due_retries
from extender.domain.ports import Announcement, Announcer, Clock, ExternalNodes, Updated
from extender.domain.views import PodView
from extender.domain.wellknown import Reason
from extender.engine.engine import Engine
from extender.engine.mass_deletion_guard import MassDeletionGuard
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.topics import NodeChanged, PodChanged

_log = structlog.get_logger(__name__)

CHECK_EVERY = 1.0
"""Seconds between two comparisons: most of what is waited for is that something has lasted."""

_ALL = "all"
"""The one key: names are given away between nodes, so all are compared at once."""

AT_ONCE = 4
"""Requests under way: slurmctld makes one node after the other, under its locks."""

RETRY = 5.0
"""Seconds before what Slurm could not do now is tried again; twice as long after each refusal."""

RETRY_MOST = 300.0

TAKEN = frozenset({"ALLOCATED", "MIXED"})
"""States of a node that jobs are on."""

_CAUSE = f"{NODE_CAUSE}registration "


_Absent = tuple[int, int]
"""Number of registered Nodes that are missing, and of all of them."""


@dataclass(slots=True)
class _OpenChange:
    """Something that is to be done about one node of Slurm."""

    change: ExternalNodeChange
    node: str
    since: float
    retry_at: float = 0.0
    refusals: int = 0
    refused: NodeRefusal | None = None
    """As such, when it was asked for last."""

    acted_at: float | None = None
    """Until nodes were read after that, what is known of it says nothing."""

    waits: str = ""
    error: str = ""

    def may_retry_early(self, now: float) -> bool:
        """Return whether only its last rejection delays the next request."""
        return not self.waits and self.acted_at is None and self.retry_at > now


class ExternalNodeController:
    """Compare what is wanted with what Slurm has. `fresh`: return whether the informers are up to date."""

    def __init__(
        self,
        engine: Engine,
        nodes: NodeController,
        slurm: ExternalNodes,
        clock: Clock,
        announcer: Announcer,
        *,
        rules: ExternalRules,
        settle_delays: SettleDelays,
        mass_deletion_guard: MassDeletionGuard,
        kube_nodes: NodeLister,
        on_node: Callable[[str], Sequence[PodView]],
        settled: Callable[[], bool],
        fresh: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._nodes = nodes
        self._slurm = slurm
        self._clock = clock
        self._announcer = announcer
        self._rules = rules
        self._settle_delays = settle_delays
        self._mass_deletion_guard = mass_deletion_guard
        self._kube_nodes = kube_nodes
        self._on_node = on_node
        self._settled = settled
        self._fresh = fresh
        self._desired = DesiredNodes(rules, kube_nodes, on_node)
        self._unfit: dict[str, tuple[str, float]] = {}
        """Nodes that are meant and cannot be registered: why, and since when."""

        self._seen: SlurmSnapshot | None = None
        self._open: dict[str, _OpenChange] = {}
        self._names: dict[str, list[str]] = {}
        """By Node: what was registered for it."""

        self._held: set[str] = set()
        self._requested: dict[str, DesiredNode] = {}
        """The nodes as requested, until Slurm shows them so: a rejected value is not requested again without end."""

        self._notified: dict[str, str] = {}
        self.done: Counter[tuple[str, ...]] = Counter()
        """Operations by step and by `ok` or `refused`."""

        self._controller = Controller("external nodes", self._reconcile, resync=Resync(lambda: (_ALL,)))
        self._steps = Controller("steps of external nodes", self._take_step_of, workers=AT_ONCE)

    @property
    def works(self) -> bool:
        """Return whether the site wants Nodes registered, or registered ones removed again."""
        return self._rules.selector is not None or self._rules.remove

    def node_changed(self, event: NodeChanged) -> None:
        """Compare this Node with its Slurm node."""
        if (node := event.new or event.old) is not None:
            self._desired.changed(node.name)

    def pod_changed(self, event: PodChanged) -> None:
        """Compare the Node again whose own Pods (DaemonSets, static Pods) changed."""
        for pod in (event.old, event.new):
            if pod is not None and pod.of_its_node and pod.node_name:
                self._desired.changed(pod.node_name)

    async def run(self) -> None:
        """Compare and act until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run(), name="external nodes")
            group.create_task(self._steps.run(), name="steps of external nodes")

    async def _reconcile(self, _all: str) -> Requeue:
        for name in self.check() if self.works else ():
            self._steps.add(name)
        return Requeue(CHECK_EVERY)

    async def _take_step_of(self, name: str) -> None:
        if (one := self._open.get(name)) is not None:
            await self._take_step(name, one)
            self._nodes.read_soon()

    # What is to be done.

    def check(self) -> list[str]:
        """Compare everything; the Slurm nodes about which something is to be done now."""
        slurm = self._engine.snapshot.slurm
        if not (slurm.known and self._settled()):
            return []
        if slurm is self._seen and not (self._desired.read() or self._open or self._unfit):
            return []  # nothing is new, and nothing is left to be done
        self._seen = slurm
        self._desired.read()
        want, unfit = self._desired.by_slurm_name(self._engine.snapshot)
        self._note_unfit(unfit)
        registered = {name: node for name, node in slurm.nodes.items() if node.registered_for}
        self._names = {}
        for slurm_node in registered.values():
            self._names.setdefault(slurm_node.registered_for, []).append(slurm_node.name)
        absent = self._absent(registered)
        due = []
        for name in sorted(want.keys() | registered.keys() | self._open.keys()):
            has = slurm.nodes.get(name)
            if has is not None and has.registered_for in self._unfit:
                change = ExternalNodeChange(Step.NOTHING)  # it is to be a node of Slurm; what kind of one is not known
            else:
                change = compare(want.get(name), has, self._rules)
            if self._weigh(name, change, want.get(name), has, absent=absent):
                due.append(name)
        now = self._clock.now()
        due += due_retries(
            {name: one.refused for name, one in self._open.items() if one.refused and one.may_retry_early(now)}, now
        )
        self._notify_unfit()
        for node, text in self._desired.lacking(self._engine.snapshot).items():
            self._notify(f"GRES of {node}", node, text)
        known = want.keys() | registered.keys() | self._open.keys() | self._kube_nodes.names()
        self._notified = {key: text for key, text in self._notified.items() if key.rpartition(" ")[2] in known}
        return due

    def _note_unfit(self, unfit: Mapping[str, str]) -> None:
        now = self._clock.now()
        before = self._unfit
        self._unfit = {
            name: before[name] if name in before and before[name][0] == why else (why, now)
            for name, why in unfit.items()
        }

    def _absent(self, registered: Mapping[str, SlurmNode]) -> _Absent:
        """Count the Nodes that are missing. Where they are too many, the list of Nodes may be wrong."""
        there = self._kube_nodes.names()
        return sum(node.registered_for not in there for node in registered.values()), len(registered)

    def _weigh(
        self, name: str, change: ExternalNodeChange, want: DesiredNode | None, has: SlurmNode | None, *, absent: _Absent
    ) -> bool:
        """Take note of what is to be done about a node. Whether it is to be done now."""
        if self._steps.queue.works_on(name) or name in self._steps.queue:
            return False
        now, one = self._clock.now(), self._open.get(name)
        node = has.registered_for if has is not None and has.registered_for else want.node if want is not None else ""
        if one is not None and one.acted_at is not None and self._nodes.read_at <= one.acted_at:
            return False
        if change.step in {Step.NOTHING, Step.UPDATE}:
            self._requested.pop(name, None)  # Slurm has it as it was made
        if change.step is Step.NOTHING:
            self._release_hold(name)
            if one is not None:
                del self._open[name]
                self._notified.pop(name, None)
            return False
        if one is None or one.change != change:
            one = self._open[name] = _OpenChange(change, node, now)
        one.acted_at = None
        one.waits = self._obstacle(name, one, want, has, absent=absent)
        return not one.waits and one.retry_at <= now

    def _obstacle(
        self, name: str, one: _OpenChange, want: DesiredNode | None, has: SlurmNode | None, *, absent: _Absent
    ) -> str:
        """Return why a step is not taken now; "": no obstacle."""
        features = self._engine.snapshot.slurm.features
        release = ".".join(f"{part:02}" for part in features.release[:2]) + f".{features.release[2]}"
        match one.change.step:
            case Step.LEAVE:
                self._release_hold(name)
                action = f"Delete Slurm node {name} to let the extender register it"
                return self._announce(name, one, f"{one.change.text}. {action}")
            case Step.CREATE if not features.register:
                why = f"Slurm {release} cannot use external nodes that are created at run time"
                action = "Upgrade Slurm to 25.11.6, or exclude the Node by nodes.external.selector"
                return self._announce(name, one, f"{one.change.text}: {why}. {action}")
            case Step.CREATE if want is not None and not want.ready:
                return f"Node {want.node} is not Ready"
            case Step.CREATE if other := self._other_name(one.node, name):
                return f"Node {one.node} is still Slurm node {other}"
            case Step.RENEW if not features.renew:
                why = f"Slurm {release} cannot register a deleted node again, so the Slurm node stays unchanged"
                return self._announce(name, one, f"{one.change.text}: {why}. Upgrade Slurm to 26.05.3")
            case Step.RENEW if want is not None and self._requested.get(name) == want:
                action = f"Compare `scontrol show node {name}` with nodes.external"
                return self._announce(
                    name, one, f"{one.change.text}: Slurm creates it with other values than requested. {action}"
                )
            case Step.RENEW | Step.DELETE:
                return self._not_empty(name, one, has, absent=absent)
        return ""

    def _other_name(self, node: str, name: str) -> str:
        return next((other for other in self._names.get(node, ()) if other != name), "")

    def _not_empty(self, name: str, one: _OpenChange, has: SlurmNode | None, *, absent: _Absent) -> str:
        """Return why a node is not deleted now. It is drained once the reason for deletion has lasted."""
        # A Node that exists is not missing, however many others are.
        missing, total = absent if self._kube_nodes.named(one.node) is None else (0, 0)
        if name not in self._held:
            if not self._mass_deletion_guard.judge(
                one.since, missing, total, grace_s=self._settle_delays.settle
            ).lasted:
                return "it may pass"
            if not self._fresh():
                return "the API server does not answer"
        self._hold(name, one.change)
        if one.change.step is Step.DELETE and not (self._engine.snapshot.slurm.features.renew or self._rules.remove):
            why = "Slurm cannot register a deleted node again if the Node returns, so the Slurm node stays drained"
            return self._announce(name, one, f"{one.change.text}: {why}. Upgrade Slurm to 26.05.3")
        if not self._fresh():
            return "the API server does not answer"
        held = self._nodes.holds.get(name)
        if held is not None and held.state is DrainState.FOREIGN:
            return f"drained by another author: {has.reason if has is not None else ''}"
        if not self._nodes.keeps(name):
            return "it is being drained"
        if held is not None and (others := self._others(name, one, held.holds)):
            return f"it is held: {'; '.join(others)}"
        pods = [pod.full_name for pod in self._on_node(one.node) if pod.scheduler_name in self._rules.schedulers]
        if pods:
            return f"{len(pods)} Pods of this scheduler are there, {pods[0]} among them"
        if has is not None and (has.state != "IDLE" or "COMPLETING" in has.flags):
            slurm_states = "+".join([has.state, *sorted(has.flags)])
            return f"jobs are on it ({slurm_states})" if has.state in TAKEN else f"it is {slurm_states}"
        return ""

    def _others(self, name: str, one: _OpenChange, holds: Mapping[str, str]) -> list[str]:
        """Return the holds that a new node would not have. A hold because of the Node ends with the node."""
        ends = one.change.step is Step.DELETE
        return [
            text
            for cause, text in holds.items()
            if cause != _CAUSE + name and not (ends and cause.startswith(NODE_CAUSE))
        ]

    # Doing it.

    async def _take_step(self, name: str, one: _OpenChange) -> None:
        step, want = one.change.step, self._desired.of(one.node, name, self._engine.snapshot)
        answer = Updated(None, "the Node no longer needs it")
        if step in {Step.DELETE, Step.RENEW}:
            answer = await self._slurm.delete(name)
            if answer.done:
                # Whatever becomes of the next request, the node that it makes needs no drain.
                self._release_hold(name)
                self._nodes.deleted(name)
        if step is Step.UPDATE and want is not None:
            answer = await self._slurm.change(want, one.change.keys)
        if want is not None and (step is Step.CREATE or (step is Step.RENEW and answer.done)):
            answer = await self._slurm.create(want)
            self._requested[name] = want
        now = self._clock.now()
        one.acted_at, one.error = now, "" if answer.done else answer.text
        before, one.refused = one.refused, None
        if answer.done:
            self.done[str(step), "ok"] += 1
            for other in self._open.values():
                if before is not None and other.refused is not None and other.refused.cause == before.cause:
                    other.retry_at, other.refusals = now, 0
            _log.info("external_node_changed", step=str(step), node=one.node, slurm_node=name, why=one.change.text)
            self._release_hold(name)
            return
        one.retry_at = now + Backoff(RETRY, RETRY_MOST).after(one.refusals + 1)
        if answer.done is None:
            _log.info("external_node_retrying", step=str(step), slurm_node=name, error=answer.text)
            return
        one.refusals += 1
        one.refused = NodeRefusal(cause_of(name, answer.text), now)
        self.done[str(step), "refused"] += 1
        self._announce(name, one, f"{one.change.text}: Slurm rejected the change ({answer.text}). The extender retries")

    def _hold(self, name: str, change: ExternalNodeChange) -> None:
        self._nodes.hold(name, _CAUSE + name, change.text, closely=0.0)
        self._held.add(name)

    def _release_hold(self, name: str) -> None:
        if name in self._held:
            self._held.discard(name)
            self._nodes.release_hold(_CAUSE + name)

    # Report the state.

    def _announce(self, name: str, one: _OpenChange, text: str) -> str:
        """Announce a text once, in the log and as an Event on the Node; return it."""
        self._notify(name, one.node, text)
        return text

    def _notify(self, key: str, node: str, text: str) -> None:
        if self._notified.get(key) != text:
            self._notified[key] = text
            _log.warning("external_node_mismatch", node=node, why=text)
            kube_node = self._kube_nodes.named(node)
            if kube_node is not None:
                reason = Reason.NODE_NOT_REGISTERED
                self._announcer.announce(
                    Announcement("Node", "", node, kube_node.uid, reason, f"{text}.", warning=True)
                )

    def _notify_unfit(self) -> None:
        """Announce Nodes that stay unfit for registration: a new Node does not report everything at once."""
        now = self._clock.now()
        for name, (why, since) in self._unfit.items():
            if now - since >= self._settle_delays.settle:
                self._notify(f"Node {name}", name, f"Node {name} cannot be registered in Slurm: {why}")

    def by_state(self) -> Mapping[str, int]:
        """Count the Nodes that are registered as wanted, that wait for each step, and that cannot be registered."""
        found = Counter(str(one.change.step) for one in self._open.values())
        found["unfit"] = len(self._unfit)
        if self.works:
            nodes = self._engine.snapshot.slurm.nodes
            registered = [name for name, node in nodes.items() if node.registered_for]
            found["registered"] = sum(name not in self._open for name in registered)
        return found

    def shown(self) -> list[dict[str, str]]:
        """Return the open steps with their obstacles, and which Nodes cannot be registered and why."""
        steps = [
            {
                "slurm": name,
                "node": one.node,
                "step": str(one.change.step),
                "why": one.change.text,
                "waits": one.waits,
                "error": one.error,
            }
            for name, one in sorted(self._open.items())
        ]
        return [*steps, *({"node": name, "unfit": why} for name, (why, _) in sorted(self._unfit.items()))]
