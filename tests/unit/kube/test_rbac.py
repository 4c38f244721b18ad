"""The simulated API server grants what a real one does: `tests/manifests/test_on_a_cluster.py` asks that the same."""

from __future__ import annotations

import pytest

from simulator.cluster import SimCluster, simulated_cluster
from simulator.kube.rbac import NAMESPACE, Permission, Rbac
from tests.builders.kustomize import CORE, documents
from tests.builders.rights import MAY, MAY_NOT, Question, shipped_rights


@pytest.mark.parametrize("question", MAY, ids=str)
def test_what_a_bound_role_says_is_allowed(question: Question) -> None:
    assert shipped_rights().allows(question.permission, question.namespace, question.name)


@pytest.mark.parametrize("question", MAY_NOT, ids=str)
def test_what_no_bound_role_says_is_forbidden(question: Question) -> None:
    assert not shipped_rights().allows(question.permission, question.namespace, question.name)


@pytest.mark.looptime
async def test_every_simulated_cluster_grants_no_more_and_no_less() -> None:
    async with simulated_cluster(SimCluster) as cluster:
        assert cluster.kube.rbac == shipped_rights()


def test_another_account_has_no_part_in_it() -> None:
    stranger = Rbac.of(documents(CORE / "rbac-extender.yaml"), "default", NAMESPACE)
    assert not stranger.allows(Permission("list", "", "pods"), "", "")
