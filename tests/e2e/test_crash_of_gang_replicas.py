"""One of two replicas is killed at every step of a gang, or one after the other: the gang is whole afterwards.

Both stay up from test to test, since a start of a process lasts longer than a takeover. Each test asks which one leads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from lab.process import Daemon
from lab.site import Site
from tests.builders.gang_crashes import SIZE, STEPS, assert_whole, gang_with_fault, voted
from tests.builders.relay import InjectedFault, RequestPhase
from tests.builders.relays_of_a_site import NthRequest, RelayPair
from tests.builders.stage import Stage
from tests.e2e.test_two_replicas import holder, instead_of_its_own, two

pytestmark = pytest.mark.slow
IN_TURN = (("granted", "gate-2-open"), ("gate-2-open", "binding-2"))
"""Steps of the first and of the second kill. Bindings are sent side by side: of these the next leader may have none."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Both replicas, by who leads when the test begins, and the relays of both."""

    leader: Daemon
    follower: Daemon
    relay_pair: RelayPair


@pytest.fixture(scope="module")
def daemons(site: Site, relay_pair: RelayPair) -> Iterator[dict[str, Daemon]]:
    """Two replicas instead of the site's own process."""
    with instead_of_its_own(site), two(site, relay_pair.settings, by_turns=False) as found:
        yield found


@pytest.fixture
def pair(stage: Stage, daemons: dict[str, Daemon], relay_pair: RelayPair) -> Iterator[Pair]:
    """Both replicas, up before and after the test."""
    first = holder(stage.site)
    (second,) = daemons.keys() - {first}
    try:
        yield Pair(daemons[first], daemons[second], relay_pair)
    finally:
        relay_pair.disarm()
        for daemon in daemons.values():
            if not daemon.running:
                daemon.start()
        stage.site.wait_for(lambda: holder(stage.site) in daemons, "one of them leads", timeout_s=60)


@pytest.mark.modes("batch")
@pytest.mark.parametrize("moment", RequestPhase, ids=lambda moment: moment.name)
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_of_the_leader_at_a_step_of_a_gang_leaves_it_whole_on_one_job(
    stage: Stage, pair: Pair, step: str, moment: RequestPhase
) -> None:
    pods = gang_with_fault(stage, pair.relay_pair, step, moment, pair.leader.kill)
    assert_whole(stage, pods)


# A request has its effect, and the leader never learns of it. The other moments are alike in each mode.
@pytest.mark.modes("allocation", "external")
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_of_the_leader_before_it_sees_an_answer_leaves_a_gang_whole_in_each_mode(
    stage: Stage, pair: Pair, step: str
) -> None:
    pods = gang_with_fault(stage, pair.relay_pair, step, RequestPhase.SENT, pair.leader.kill)
    assert_whole(stage, pods)


@pytest.mark.modes("batch")
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_of_the_follower_while_the_leader_loses_an_answer_leaves_a_gang_whole_on_one_job(
    stage: Stage, pair: Pair, step: str
) -> None:
    pods = gang_with_fault(stage, pair.relay_pair, step, RequestPhase.SENT, pair.follower.kill)
    assert_whole(stage, pods)
    assert pair.leader.running


@pytest.mark.modes("batch")
@pytest.mark.parametrize(("first", "second"), IN_TURN)
def test_kills_of_a_leader_and_of_the_next_one_at_steps_of_a_gang_leave_it_whole_on_one_job(
    stage: Stage, pair: Pair, first: str, second: str
) -> None:
    pods = gang_with_fault(stage, pair.relay_pair, first, RequestPhase.SENT, pair.leader.kill)
    again = InjectedFault(NthRequest(*STEPS[second]), RequestPhase.BEFORE, pair.follower.kill)
    pair.relay_pair.arm(again)
    fired = again.fired.wait(60)
    pair.relay_pair.disarm()
    assert fired, f"the next leader sent no request of {second}: {stage.site.diagnostics()}"
    pair.leader.start()
    pair.follower.start()
    assert_whole(stage, pods)


@pytest.mark.modes("batch")
@pytest.mark.parametrize("killed", ["leader", "follower"])
@pytest.mark.parametrize("k", range(1, SIZE))
def test_a_kill_of_one_of_two_after_k_votes_leaves_a_gang_whole_on_one_job(
    stage: Stage, pair: Pair, k: int, killed: str
) -> None:
    with ExitStack() as refused:
        pods = voted(stage, k, refused)
        (pair.leader if killed == "leader" else pair.follower).kill()
    assert_whole(stage, pods)
