"""Random histories of one Slurm node that we and an operator drain and resume, with requests lost and looks late."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from extender.domain.nodes import machine as n
from extender.domain.wellknown import DRAIN_PREFIX

CAUSES = ("uid-1", "uid-2", "cordon")
THEIRS = "bad DIMM"


class Drains(RuleBasedStateMachine):
    """The node as slurmctld has it is `reason`, "" for no drain; what we think of it is `node`.

    Requests are carried out one after another, and a resume looks at the reason first, as the Slurm adapter does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.node = n.SlurmNodeHold("a")
        self.now = 100.0
        self.reason = ""
        self.requests: list[n.NodeCommand] = []
        self.looks: list[str] = []
        self.wanted: set[str] = set()
        self.seen = ""

    def notify(self, event: n.NodeEvent) -> None:
        self.node, commands = n.step(self.node, event, self.now)
        for command in commands:
            match command:
                case n.DrainNode(reason=reason):
                    assert self.wanted, "a drain that nobody wants"
                    assert reason.startswith(DRAIN_PREFIX)
                case n.ResumeNode():
                    assert not self.wanted, "the node is released although a hold is left"
            assert self.seen != THEIRS, f"{command} over somebody else's drain"
        self.requests += commands

    # Us.

    @rule(cause=st.sampled_from(CAUSES))
    def a_controller_holds(self, cause: str) -> None:
        self.wanted.add(cause)
        self.notify(n.HoldRequested(cause, f"{cause} outlives its job"))

    @rule(cause=st.sampled_from(CAUSES))
    def a_controller_releases(self, cause: str) -> None:
        self.wanted.discard(cause)
        self.notify(n.HoldReleased(cause))

    # Between us and slurmctld.

    @precondition(lambda self: self.requests)
    @rule(arrives=st.booleans(), answered=st.booleans())
    def a_request_is_executed(self, arrives: bool, answered: bool) -> None:
        command = self.requests.pop(0)
        if arrives:
            self.execute(command)
        self.notify(n.DrainAnswered(arrives and answered))

    def execute(self, command: n.NodeCommand) -> None:
        match command:
            case n.DrainNode(reason=reason):
                self.reason = reason
            case n.ResumeNode() if self.reason.startswith(DRAIN_PREFIX):
                self.reason = ""
            case n.ResumeNode():
                pass

    @rule()
    def slurm_is_read(self) -> None:
        self.looks.append(self.reason)

    @precondition(lambda self: self.looks)
    @rule()
    def slurm_answers(self) -> None:
        self.see(self.looks.pop(0))

    def see(self, reason: str) -> None:
        self.seen = reason
        self.notify(n.NodeSeen(bool(reason), reason))

    @rule(seconds=st.sampled_from((0.5, 2.0, 10.0)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        if self.node.retry_at is not None and self.node.retry_at <= self.now:
            self.notify(n.NodeTimer())

    # The operator.

    @rule(reason=st.sampled_from((THEIRS, "")))
    def the_operator_drains_or_resumes(self, reason: str) -> None:
        self.reason = reason

    @rule()
    def the_extender_restarts(self) -> None:
        self.node, self.requests, self.looks, self.seen = n.SlurmNodeHold("a"), [], [], ""
        for cause in sorted(self.wanted):
            self.notify(n.HoldRequested(cause, f"{cause} outlives its job"))

    # What must hold.

    @invariant()
    def every_hold_is_remembered(self) -> None:
        assert set(self.node.holds) == self.wanted

    @invariant()
    def a_hold_is_drained_or_owes_a_drain(self) -> None:
        if self.wanted:
            assert self.node.state in {n.DrainState.DRAINING, n.DrainState.DRAINED, n.DrainState.FOREIGN}
        if self.node.state in {n.DrainState.DRAINING, n.DrainState.RESUMING}:
            assert self.node.retry_at is not None

    def teardown(self) -> None:
        """Once everything arrives, the node is drained exactly while somebody, we or the operator, wants that."""
        theirs = self.reason == THEIRS
        for _ in range(6):
            while self.requests:
                command = self.requests.pop(0)
                if self.reason != THEIRS:  # between our look and our write the operator does nothing any more
                    self.execute(command)
                self.notify(n.DrainAnswered(True))
            self.looks.clear()
            self.see(self.reason)
            self.now += 2.0
            self.notify(n.NodeTimer())
        if theirs:
            assert self.reason == THEIRS
            assert self.node.state is n.DrainState.FOREIGN
        else:
            assert self.reason.startswith(DRAIN_PREFIX) == bool(self.wanted), (self.reason, self.node)
            assert self.node.state is (n.DrainState.DRAINED if self.wanted else n.DrainState.FREE)


Drains.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestDrains = Drains.TestCase
