"""A first Pod builds no more than it needs."""

from __future__ import annotations

from lab.build_kubernetes import newest_minor
from lab.first_pod import parts
from lab.kube import ETCD_FROM


def test_one_slurm_one_kubernetes_and_kwok_are_needed() -> None:
    assert list(parts(ETCD_FROM)) == [f"slurm-{ETCD_FROM}", f"kubernetes-{newest_minor()}", "kwok"]


def test_a_real_container_needs_the_programs_of_a_node_too() -> None:
    assert list(parts(ETCD_FROM, kubelet=True)) == [*parts(ETCD_FROM), "node"]
