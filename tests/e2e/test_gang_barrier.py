"""A change between the grant of a gang's job and the Bindings binds no member, or all of them.

kube-scheduler stands still meanwhile, so that each change falls into that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from lab.site import PodRef
from tests.builders.stage import Stage
from tests.builders.staged_gangs import (
    BARRIER_S,
    SAMPLE_S,
    all_bound,
    assert_in_rank_order,
    assert_none_bound,
    before_binding,
    gang,
    nodes_of,
    nodes_of_job,
)
from tests.e2e.test_candidates import changed

SIZE = 3
CPUS_OF_NODE = 64
HELD_S = 3.0
"""So long the cause lasts. It is longer than a call of `/bind` is held, and shorter than `gangs.bindWithin`."""

KNOWN_S = 0.5
"""Within this time the watches of the extender and of kube-scheduler show a change."""

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY = "e2e-refused-bindings"
Cause = Callable[[Stage, str], AbstractContextManager[None]]


@contextmanager
def tainted(stage: Stage, node: str) -> Iterator[None]:
    taint = {"key": "e2e/gang", "value": "x", "effect": "NoSchedule"}
    with changed(stage.site, {node: {"spec": {"taints": [taint]}}}):
        yield


@contextmanager
def cordoned(stage: Stage, node: str) -> Iterator[None]:
    with changed(stage.site, {node: {"spec": {"unschedulable": True}}}):
        yield


@contextmanager
def taken_by_a_foreign_pod(stage: Stage, node: str) -> Iterator[None]:
    site = stage.site
    options = {"scheduler": "another", "nodeName": node, "cpus": CPUS_OF_NODE - 1, "memory": "1Gi"}
    foreign = site.pod("foreign", stage.namespace, **options)
    yield
    site.delete(foreign)
    site.gone(foreign)


CAUSES: Mapping[str, Cause] = {"taint": tainted, "cordon": cordoned, "foreign-pod": taken_by_a_foreign_pod}
IN_EVERY_RUN = "foreign-pod"


def assert_not_in_part(stage: Stage, pods: list[PodRef], node: str, seconds: float) -> None:
    """Hold for so long that this Node has no member, and that no part of the gang stays bound.

    The gang may be placed on other nodes meanwhile.
    """
    in_part = 0.0
    for _ in range(round(seconds / SAMPLE_S)):
        nodes = nodes_of(stage, pods)
        assert node not in nodes, "a member was bound to the node that refuses it"
        in_part = 0 if sum(map(bool, nodes)) in {0, len(pods)} else in_part + SAMPLE_S
        assert in_part < BARRIER_S, "only a part of the gang stayed bound"
        stage.site.elapse(SAMPLE_S)


@contextmanager
def refused_binding(stage: Stage, name: str) -> Iterator[None]:
    """The API server refuses the Binding of this Pod; the others of its namespace are bound."""
    kube, probe = stage.site.kube, f"/api/v1/namespaces/{stage.namespace}/pods/probe/binding"
    said = f"request.namespace != '{stage.namespace}' || !(request.name in ['{name}', 'probe'])"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    policy = {
        "metadata": {"name": POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": said, "message": "this Pod must not be bound", "reason": "Forbidden"}],
        },
    }
    use = {"metadata": {"name": POLICY}, "spec": {"policyName": POLICY, "validationActions": ["Deny"]}}
    body = {"metadata": {"name": "probe"}, "target": {"kind": "Node", "name": "none"}}

    def refuses() -> bool:
        return bool(kube.api("POST", probe, body)[0] == 403)

    stage.site.create(f"{ADMISSION}/validatingadmissionpolicies", policy)
    stage.site.create(f"{ADMISSION}/validatingadmissionpolicybindings", use)
    try:
        stage.site.wait_for(refuses, "the API server refuses the Binding")
        yield
    finally:
        kube.api("DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/{POLICY}")
        kube.api("DELETE", f"{ADMISSION}/validatingadmissionpolicies/{POLICY}")
        stage.site.wait_for(lambda: not refuses(), "the API server refuses no Binding any more")


@pytest.mark.parametrize(
    "cause", [pytest.param(one, marks=() if one == IN_EVERY_RUN else pytest.mark.slow) for one in CAUSES]
)
@pytest.mark.modes("batch", slow=("24.11",))
def test_no_member_is_bound_beside_a_node_that_refuses_one_and_all_are_in_the_end(
    stage: Stage, cause: str, record_property: Callable[[str, object], None]
) -> None:
    site = stage.site
    with ExitStack() as unusable:
        with before_binding(stage, "held", SIZE) as (pods, job):
            node = nodes_of_job(stage, job)[-1]
            unusable.enter_context(CAUSES[cause](stage, node))
            site.elapse(KNOWN_S)
        assert_not_in_part(stage, pods, node, HELD_S)
    _, took = site.timed(lambda: all(nodes_of(stage, pods)), "all members are bound")
    assert_in_rank_order(stage, pods)
    (now,) = stage.jobs()
    row = {"Slurm": site.release, "cause": cause, "bound after its end, s": f"{took:.2f}"}
    row["job"] = "the same" if now.job_id == job.job_id else "another one"
    record_property("table: Gangs of which one node refuses a member between grant and Binding", row)
    stage.finish()


@pytest.mark.modes("batch", slow=("24.11",))
def test_a_member_deleted_after_the_grant_leaves_the_others_unbound_until_its_successor_exists(stage: Stage) -> None:
    site = stage.site
    with before_binding(stage, "lost", SIZE) as (pods, job):
        site.delete(pods[1])
        site.gone(pods[1])
        site.elapse(KNOWN_S)
    assert_none_bound(stage, pods, HELD_S)
    pods[1:2] = gang(stage, "lost", SIZE, ranks=[1])
    all_bound(stage, pods)
    assert_in_rank_order(stage, pods)
    assert stage.made() == [job.job_id]
    stage.finish()


@pytest.mark.parametrize("k", [pytest.param(k, marks=() if k == 1 else pytest.mark.slow) for k in range(SIZE)])
@pytest.mark.modes("batch", slow=("24.11",))
def test_a_gang_whose_kth_binding_is_refused_for_a_while_is_whole_on_the_same_job_afterwards(
    stage: Stage, k: int
) -> None:
    site, others = stage.site, [rank for rank in range(SIZE) if rank != k]
    with refused_binding(stage, f"part-{k}"):
        with before_binding(stage, "part", SIZE) as (pods, job):
            pass
        all_bound(stage, [pods[rank] for rank in others])
        site.elapse(HELD_S)
        assert nodes_of(stage, [pods[k]]) == [""]
    all_bound(stage, pods)
    assert_in_rank_order(stage, pods)
    assert stage.made() == [job.job_id]
    stage.finish()
