"""The figures of a flood: stages that add up, differences of counters, and text that follows from them."""

from __future__ import annotations

from typing import Any

import pytest

from bench.real.adversary import STAGES, Phase, Rounds, result, stages
from bench.real.served import read
from docs.generate.flood import GOAL, flood_lines

FLOWS = """\
# HELP apiserver_flowcontrol_dispatched_requests_total [BETA] Number of requests executed
apiserver_flowcontrol_dispatched_requests_total{flow_schema="global-default",priority_level="global-default"} 100
apiserver_flowcontrol_dispatched_requests_total{flow_schema="slurm-extender",priority_level="workload-high"} 40
apiserver_flowcontrol_rejected_requests_total{flow_schema="global-default",priority_level="global-default",reason="queue-full"} 3
apiserver_flowcontrol_request_wait_duration_seconds_sum{execute="true",flow_schema="global-default",priority_level="global-default"} 5.5
apiserver_flowcontrol_request_wait_duration_seconds_sum{execute="false",flow_schema="global-default",priority_level="global-default"} 0.5
apiserver_flowcontrol_request_execution_seconds_sum{flow_schema="slurm-extender",priority_level="workload-high",type="regular"} 2.0
apiserver_flowcontrol_current_executing_seats{flow_schema="slurm-extender",priority_level="workload-high"} 7
"""  # noqa: E501

SENT = """\
slurm_extender_kube_request_duration_seconds_count{code="200",endpoint="pods",method="PATCH"} 30
slurm_extender_kube_request_duration_seconds_count{code="409",endpoint="pods",method="PATCH"} 2
slurm_extender_kube_request_duration_seconds_sum{code="200",endpoint="pods",method="PATCH"} 6.0
slurm_extender_slurm_request_duration_seconds_count{request="allocate",result="ok"} 10
slurm_extender_slurm_request_duration_seconds_sum{request="allocate",result="ok"} 0.1
"""


def phase(shown: float, named: float, bound: float, alone: float = 0.1) -> Phase:
    found = Phase(without_extender=[alone], without_extender_shown=[alone / 2], slurm_alone=[0.01])
    for number in range(20):
        at = float(number)
        found.add(at, at + 0.001, at + shown, at + shown + named, at + shown + named + bound)
    return found


def a_result(flooded: Phase, *, drained: set[str] = frozenset(), hostile: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    counts = dict.fromkeys(("seconds", "requests", "created", "flapped", "deleted", "forced", "throttled", "failed"), 4)
    return result(
        Rounds(
            quiet=[phase(0.01, 0.02, 0.03)],
            flooded=[flooded],
            beside=[Phase(without_extender=[0.4], without_extender_shown=[0.2])],
            attacks={"with_extender": [counts], "without_extender": [counts]},
            cpu=[{}],
            served=[{"quiet": {}, "flooded": read(FLOWS, SENT).since(read("", "")), "beside": {}}],
            drained=set(drained),
            hostile=set(hostile),
        )
    )


def test_the_stages_of_a_pod_add_up_to_the_whole() -> None:
    told = stages([phase(0.1, 0.2, 0.3), phase(0.3, 0.2, 0.1)])
    assert sum(told[name]["mean"] for name in STAGES) == pytest.approx(told["placed"]["mean"]) == pytest.approx(0.6)
    assert told["shown"]["p50"] == pytest.approx(0.2)
    assert told["shown"]["p95"] == pytest.approx(0.3)


def test_a_flood_of_kube_scheduler_alone_is_compared_with_its_own_quiet_pods() -> None:
    assert a_result(phase(0.1, 0.2, 0.3))["ratio_of_kube_scheduler_flooded_alone"] == pytest.approx(4.0)


def test_a_node_without_a_pod_of_the_flood_that_is_drained_is_found() -> None:
    found = a_result(phase(0.01, 0.02, 0.03), drained={"narrow-0", "ext-001"}, hostile={"narrow-0"})
    assert (found["drained_elsewhere"], found["goal_met"], found["met"]) == (["ext-001"], True, False)


def test_requests_are_differences_by_flow_schema() -> None:
    told = read(FLOWS, SENT).since(read(FLOWS.replace("} 100", "} 60"), ""))
    assert told["flow_schemas"] == {
        "global-default": {"level": "global-default", "requests": 40.0, "throttled": 0.0, "waited_s": 0.0}
    }
    fresh = read(FLOWS, SENT).since(read("", ""))
    assert fresh["flow_schemas"]["global-default"]["waited_s"] == pytest.approx(6.0)
    assert fresh["flow_schemas"]["global-default"]["throttled"] == 3
    assert fresh["flow_schemas"]["slurm-extender"]["executed_s"] == pytest.approx(2.0)
    assert fresh["extender"]["PATCH pods"] == {"count": 32.0, "seconds": 6.0}
    assert fresh["extender"]["Slurm allocate"] == {"count": 10.0, "seconds": 0.1}


@pytest.mark.parametrize(
    ("flooded", "said"),
    [
        (phase(0.02, 0.04, 0.06), "is met: it is 2.00 times"),
        (phase(0.1, 0.2, 0.4), "is **not met**: it is 11.67 times"),
    ],
)
def test_the_page_says_whether_the_goal_is_met(flooded: Phase, said: str) -> None:
    found = a_result(flooded)
    assert found["goal_met"] == (said == "is met: it is 2.00 times")
    assert said in "\n".join(flood_lines(found))
    assert f"at most {GOAL:g} times" in "\n".join(flood_lines(found))


@pytest.mark.parametrize(
    ("flooded", "largest"),
    [
        (phase(0.5, 0.2, 0.3), "creation → shown by a watch: 50%"),
        (phase(0.1, 0.8, 0.1), "shown → the Pod names its job: 80%"),
        (phase(0.1, 0.2, 0.7), "job named → bound: 70%"),
    ],
)
def test_the_page_names_the_stage_that_takes_most(flooded: Phase, largest: str) -> None:
    text = "\n".join(flood_lines(a_result(flooded)))
    assert f"The largest part of a flooded Pod's time is {largest}" in text


def test_the_page_shows_what_each_flow_schema_waited() -> None:
    lines = flood_lines(a_result(phase(0.1, 0.2, 0.3)))
    assert "| global-default | global-default | 100 | 3 | 60 ms | 0 ms |" in lines
    assert "| slurm-extender | workload-high | 40 | 0 | 0 ms | 50 ms |" in lines
    assert "| PATCH pods | 32 | 188 ms |" in lines


def test_a_result_of_an_older_bench_blames_no_stage_that_it_did_not_measure() -> None:
    older = {"ratio": 17.0, "ratio_beside_kube_scheduler_alone": 1.2, "drained_elsewhere": []}
    older["flooded_p95_s"] = [{"allocated": 3.0, "placed": 4.0}, {"allocated": 1.0, "placed": 4.0}]
    text = "\n".join(flood_lines(older))
    assert "takes 75%, 25%." in text
    assert "In 1 of 2 rounds" in text
    assert "**not met**" in text
    assert "|---" not in text
