"""Random histories of one machine that people and we drain, cordon, lose and bring back on both sides: no loop.

Both hands act on what they saw last, in any order, and die in between. At the end both sides show the same, nobody
else's drain or cordon was touched, and nothing moves any more.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from extender.domain.cluster import SlurmNode
from extender.domain.nodes import machine as n
from extender.domain.nodes.causes import DrainRules, NodeFacts, TaintRule, causes
from extender.domain.nodes.drain_reasons import is_own_drain
from extender.domain.nodes.marks import MarkRules, NodeStatus, change, cordoned_by_others, report
from extender.domain.nodes.unavailable import SILENT_FOR, unavailable
from extender.domain.views import NodeView, Taint
from extender.domain.wellknown import CORDONED_BY, SLURM_AVAILABLE_CONDITION, UNAVAILABLE_REASON, UNAVAILABLE_TAINT
from tests.builders.pod_views import a_node

THEIRS = "bad DIMM"
OWNER = "0a1b2c3d"
ROUNDS = 8
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
MARKS = MarkRules("slurm", taint="NoSchedule", cordon=True, managed="NoSchedule")
CAUSES = DrainRules(
    taints=(TaintRule("bad"), TaintRule(UNAVAILABLE_TAINT), TaintRule(UNSCHEDULABLE.key)),
    conditions=((SLURM_AVAILABLE_CONDITION, "False"),),
)


class BothSides(RuleBasedStateMachine):
    """`kube` and `slurm` are the truth; `cordoned_by_them` is what a person wants who cordoned it."""

    def __init__(self) -> None:
        super().__init__()
        self.kube = a_node("k1", uid="u", resource_version="1")
        self.slurm = SlurmNode("n1")
        self.seen_kube, self.seen_slurm = self.kube, self.slurm
        self.hold = n.SlurmNodeHold("n1", owner=OWNER)
        self.now = 0.0
        self.cordoned_by_them = False
        self.writes = 0

    # The world.

    def _write_kube(self, **fields: object) -> None:
        after = replace(self.kube, **fields)  # type: ignore[arg-type]
        taints = tuple(taint for taint in after.taints if taint != UNSCHEDULABLE)
        # Kubernetes' own controller puts that on what is cordoned (`node_lifecycle_controller.go`).
        taints += (UNSCHEDULABLE,) if after.unschedulable else ()
        after = replace(after, taints=taints)
        if after != self.kube:
            self.kube = replace(after, resource_version=str(int(self.kube.resource_version) + 1))

    def _write_slurm(self, reason: str) -> None:
        flags = self.slurm.flags - {"DRAIN"} | ({"DRAIN"} if reason else set())
        self.slurm = replace(self.slurm, flags=flags, reason=reason)

    @rule()
    def an_administrator_drains(self) -> None:
        self._write_slurm(THEIRS)

    @rule()
    def an_administrator_resumes(self) -> None:
        self._write_slurm("")

    @rule()
    def an_administrator_cordons(self) -> None:
        if not self.kube.unschedulable:  # else kubectl says that it is cordoned already
            self.cordoned_by_them = True
            self._write_kube(unschedulable=True)

    @rule()
    def an_administrator_uncordons(self) -> None:
        self.cordoned_by_them = False
        self._write_kube(unschedulable=False)
        # The watch brings each change, and in order: what follows is seen as a change of its own.
        self._marks(self.kube)

    @rule(down=st.booleans())
    def slurmd_dies_or_lives(self, down: bool) -> None:
        self.slurm = replace(self.slurm, state="DOWN" if down else "IDLE")

    @rule(bad=st.booleans())
    def a_taint_of_others(self, bad: bool) -> None:
        rest = tuple(taint for taint in self.kube.taints if taint.key != "bad")
        self._write_kube(taints=(*rest, Taint("bad", "NoSchedule")) if bad else rest)

    @rule(ready=st.booleans())
    def kubelet(self, ready: bool) -> None:
        self._write_kube(ready=ready)

    # We.

    @rule()
    def the_watch_reports(self) -> None:
        self.seen_kube = self.kube

    @rule()
    def slurm_is_read(self) -> None:
        self.seen_slurm = self.slurm
        self._notify(n.NodeSeen("DRAIN" in self.slurm.flags, self.slurm.reason))

    @rule()
    def the_extender_holds(self) -> None:
        not_ready = None if self.seen_kube.ready else 60.0
        wanted = causes(NodeFacts("k1", self.seen_kube, not_ready), CAUSES)
        for kind in set(self.hold.holds) - wanted.keys():
            self._notify(n.HoldReleased(kind))
        for kind, text in wanted.items():
            self._notify(n.HoldRequested(kind, text))

    @rule()
    def the_extender_marks(self) -> None:
        self._marks(self.seen_kube)

    def _marks(self, node: NodeView) -> None:
        standing = NodeStatus(True, unavailable(self.seen_slurm, SILENT_FOR))
        wanted, said = change(node, standing, MARKS), report(node, standing, MARKS)
        if wanted is not None and node.resource_version == self.kube.resource_version:
            assert not (wanted.unschedulable is False and self.cordoned_by_them), "a person's cordon is lifted"
            annotations = {k: v for k, v in {**self.kube.annotations, **wanted.annotations}.items() if v is not None}
            taints = (*(taint for taint in self.kube.taints if taint not in wanted.remove), *wanted.add)
            cordon = self.kube.unschedulable if wanted.unschedulable is None else wanted.unschedulable
            self._write_kube(annotations=annotations, taints=taints, unschedulable=cordon)
            self.writes += 1
        if said is not None:
            annotations = {k: v for k, v in self.kube.annotations.items() if k != UNAVAILABLE_REASON}
            annotations |= {} if said.note is None else {UNAVAILABLE_REASON: said.note}
            conditions = {**self.kube.conditions, SLURM_AVAILABLE_CONDITION: str(not said.unavailable)}
            self._write_kube(annotations=annotations, conditions=conditions)
            self.writes += 1

    @rule()
    def the_extender_is_restarted(self) -> None:
        self.hold = n.SlurmNodeHold("n1", owner=OWNER)
        self.seen_kube, self.seen_slurm = self.kube, self.slurm
        self.the_extender_holds()
        self.slurm_is_read()

    @rule(seconds=st.sampled_from((1.0, 5.0)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        if self.hold.retry_at is not None and self.hold.retry_at <= self.now:
            self._notify(n.NodeTimer())

    def _notify(self, event: n.NodeEvent) -> None:
        self.hold, commands = n.step(self.hold, event, self.now)
        for command in commands:
            # As the Slurm adapter does: what is there is read first, and a drain of others is left as it is.
            theirs = "DRAIN" in self.slurm.flags and not is_own_drain(self.slurm.reason, OWNER)
            if not theirs:
                self._write_slurm(command.reason if isinstance(command, n.DrainNode) else "")
                self.writes += 1
            self.hold, more = n.step(self.hold, n.DrainAnswered(not theirs), self.now)
            assert not more

    # What must hold.

    def teardown(self) -> None:
        drained_by_them = self.slurm.reason == THEIRS
        for _ in range(ROUNDS):
            self.the_watch_reports()
            self.the_extender_holds()
            self.slurm_is_read()
            self.time_passes(5.0)
            self.the_extender_marks()
            before = self.writes
        self.the_extender_holds()
        self.the_extender_marks()
        assert self.writes == before, "it does not come to rest"
        assert (self.slurm.reason == THEIRS) == drained_by_them, "a person's drain is touched"
        bad = any(taint.key == "bad" for taint in self.kube.taints)
        assert cordoned_by_others(self.kube) == self.cordoned_by_them
        theirs = drained_by_them or self.slurm.state == "DOWN"
        wanted = bad or self.cordoned_by_them or not self.kube.ready
        assert is_own_drain(self.slurm.reason, OWNER) == (wanted and not drained_by_them)
        assert (self.kube.conditions.get(SLURM_AVAILABLE_CONDITION) == "False") == theirs
        assert (UNAVAILABLE_REASON in self.kube.annotations) == theirs
        assert any(taint.key == UNAVAILABLE_TAINT for taint in self.kube.taints) == theirs
        if not theirs:
            assert CORDONED_BY not in self.kube.annotations
            assert self.kube.unschedulable == self.cordoned_by_them


BothSides.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestBothSides = BothSides.TestCase
