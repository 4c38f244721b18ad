"""On a real API server the Job that writes the order of CPUs can write that annotation of its own Node, and nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import manifests
from lab.clock import wait_until
from lab.errors import LabError
from lab.kube import Kubernetes

pytestmark = pytest.mark.lab

ACCOUNT = "system:serviceaccount:slurm-extender:slurm-extender-cpus"
OWN, OTHER = "own-node", "other-node"
DENIED = "ValidatingAdmissionPolicy 'slurm-extender-cpus'"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """Two Nodes, and the rights and the policy of the component."""
    with Kubernetes(controllers=False, workdir=tmp_path_factory.mktemp("kubernetes")) as kube:
        shown = manifests.kustomize(manifests.BASE, ["cpus"])
        ours = [one for one in shown if one["metadata"]["name"] == "slurm-extender-cpus" and one["kind"] != "Job"]
        manifests.apply_rights(kube, [one for one in shown if one["kind"] == "Namespace"] + ours)
        for name in (OWN, OTHER):
            kube.add_node(name, annotations={"kept": "yes"})
        # kubectl reads what it patches; the Job does not.
        kube.kubectl("create", "clusterrole", "read-nodes", "--verb=get", "--resource=nodes")
        kube.kubectl("create", "clusterrolebinding", "read-nodes", "--clusterrole=read-nodes", f"--user={ACCOUNT}")
        wait_until(lambda: DENIED in writes(kube, OTHER, "label", "a=b"), "the policy holds", timeout_s=60)
        yield kube


PATCHES = {
    "label": '{"metadata":{"labels":{"KEY":"VALUE"}}}',
    "annotate": '{"metadata":{"annotations":{"KEY":"VALUE"}}}',
    "remove": '{"metadata":{"annotations":{"KEY":null}}}',
    "cordon": '{"spec":{"unschedulable":true}}',
    "taint": '{"spec":{"taints":[{"key":"KEY","effect":"NoSchedule"}]}}',
}


def writes(kube: Kubernetes, node: str, verb: str, change: str, *, runs_on: str = OWN) -> str:
    """Return why the account of a Pod on a Node may not make this change, "" if it may; it is not made."""
    identity = ["--as", ACCOUNT]
    if runs_on:
        identity += ["--as-user-extra", f"authentication.kubernetes.io/node-name={runs_on}"]
    key, _, value = change.partition("=")
    patch = PATCHES[verb].replace("KEY", key).replace("VALUE", value)
    try:
        kube.kubectl("patch", "node", node, "--type=merge", f"--patch={patch}", "--dry-run=server", *identity)
    except LabError as error:
        return str(error)
    return ""


def test_the_annotation_of_the_own_node_can_be_written_and_written_again(cluster: Kubernetes) -> None:
    assert writes(cluster, OWN, "annotate", "slurm-extender.io/cpus=0-3") == ""
    cluster.kubectl("annotate", "node", OWN, "slurm-extender.io/cpus=0-1")
    assert writes(cluster, OWN, "annotate", "slurm-extender.io/cpus=0-3") == ""


@pytest.mark.parametrize(
    ("node", "verb", "change", "runs_on"),
    [
        (OTHER, "annotate", "slurm-extender.io/cpus=0-3", OWN),
        (OWN, "annotate", "slurm-extender.io/cpus=0-3", ""),
        (OWN, "annotate", "slurm-extender.io/slurm-node=n1", OWN),
        (OWN, "annotate", "kept=no", OWN),
        (OWN, "remove", "kept", OWN),
        (OWN, "annotate", f"slurm-extender.io/cpus={'0,' * 2561}", OWN),
        (OWN, "label", "slurm-extender.io/slurm-node=n1", OWN),
        (OWN, "cordon", "", OWN),
        (OWN, "taint", "a", OWN),
    ],
    ids=str,
)
def test_no_other_write_is_accepted(cluster: Kubernetes, node: str, verb: str, change: str, runs_on: str) -> None:
    assert DENIED in writes(cluster, node, verb, change, runs_on=runs_on)
