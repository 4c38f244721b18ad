"""What is known of Pods that are not adopted yet."""

from __future__ import annotations

from extender.domain.pods.deferred_pods import DeferredPods
from extender.domain.views import PodView

GANG = "gang-1"


def a_pod(uid: str, namespace: str = "ours", node: str = "") -> PodView:
    return PodView(uid, namespace, uid, node_name=node)


def test_a_workload_may_be_that_of_a_deferred_pod_in_its_namespace_until_the_last_one_is_gone() -> None:
    deferred = DeferredPods()
    deferred.put(a_pod("a"), "why")
    deferred.put(a_pod("b"), "why")
    assert deferred.may_have(GANG, "ours")
    assert deferred.may_have(GANG, "")
    assert not deferred.may_have(GANG, "theirs")
    assert deferred.may_have("a", "ours")
    assert not deferred.may_have("c", "ours")
    deferred.drop("a")
    assert deferred.may_have(GANG, "ours")
    deferred.drop("b")
    deferred.drop("b")
    assert not deferred.may_have(GANG, "ours")
    assert not deferred.may_have(GANG, "")


def test_a_deferred_pod_is_on_the_node_that_it_names_now() -> None:
    deferred = DeferredPods()
    deferred.put(a_pod("a"), "why")
    assert not deferred.on_node("")
    deferred.seen(a_pod("a", node="n1"))
    deferred.seen(a_pod("a", node="n1"))
    deferred.put(a_pod("b", node="n1"), "why")
    assert deferred.on_node("n1")
    deferred.drop("a")
    assert deferred.on_node("n1")
    deferred.drop("b")
    assert not deferred.on_node("n1")
