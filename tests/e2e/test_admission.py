"""New Pods get our gate by what the manifests ship for this Kubernetes: its own policy, or the webhook before 1.36.

The webhook is the extender's own, called as the manifests say: by the name of its Service, with the certificate that
`slurm-extender generate certificates` makes, trusted by what that writes. Only where the Service leads is the lab's:
it has no network of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from extender.domain.wellknown import GATE, OPT_IN_LABEL, OPT_OUT
from lab import manifests
from lab.cache import cache_folder
from lab.pods import pod
from lab.ports import Ports
from lab.secrets_folder import mount
from lab.site import Site
from tests.builders.stage import Stage
from tests.e2e.test_doctor import as_administrator, examined, verdicts
from tests.e2e.test_mutual_tls import NAMESPACE, certificates

OVERLAYS = manifests.BASE.parent / "overlays"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SECRET = "slurm-extender-webhook-tls"


def has_policies(site: Site) -> bool:
    """Whether this Kubernetes knows the kind of `components/gate-policy`."""
    kinds = site.kube.api("GET", ADMISSION)[1]["resources"]
    return any(one["name"] == "mutatingadmissionpolicies" for one in kinds)


@contextmanager
def applied(site: Site, documents: list[manifests.Document]) -> Iterator[None]:
    text = yaml.safe_dump_all(documents)
    site.kube.kubectl("apply", "-f", "-", stdin=text)
    try:
        yield
    finally:
        site.kube.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=text)


@contextmanager
def policy(site: Site) -> Iterator[None]:
    documents = manifests.shipped(site.kube, manifests.BASE)
    kinds = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]
    with applied(site, manifests.of_kind(documents, kinds)):
        yield


def webhook_objects(site: Site, port: int) -> list[manifests.Document]:
    """The shipped webhook and its Service, which leads to a port of loopback."""
    documents = manifests.shipped(site.kube, OVERLAYS / "gate-webhook")
    [configuration] = manifests.of_kind(documents, ["MutatingWebhookConfiguration"])
    every = [hook["clientConfig"]["service"] for hook in configuration["webhooks"]]
    [name] = {called["name"] for called in every}
    [service] = [one for one in manifests.of_kind(documents, ["Service"]) if one["metadata"]["name"] == name]
    # Such a Service keeps its name and has no ports: they are the caller's (apiserver `util/proxy/proxy.go`).
    service["spec"] = {"type": "ExternalName", "externalName": "127.0.0.1"}
    for called in every:
        called["port"] = port
    return [service, configuration]


@contextmanager
def webhook(site: Site) -> Iterator[None]:
    manifests.apply_rights(site.kube, manifests.shipped(site.kube, OVERLAYS / "gate-webhook"))
    with Ports(cache_folder() / "ports") as ports:
        port = ports.take()
        with applied(site, webhook_objects(site, port)):
            certificates(site)
            folder = mount(site.kube, NAMESPACE, SECRET, site.home / SECRET)
            tls = {"certificateFile": str(folder / "tls.crt"), "keyFile": str(folder / "tls.key")}
            site.reconfigure({"admission": {"bind": f"127.0.0.1:{port}", "tls": tls}})
            try:
                yield
            finally:
                site.reconfigure()


def gates(found: dict[str, Any] | None) -> list[str]:
    return [gate["name"] for gate in (found or {"spec": {}})["spec"].get("schedulingGates") or ()]


@pytest.mark.every_kubernetes
@pytest.mark.modes("batch", slow=("24.11",))
def test_a_new_pod_waits_behind_the_gate_until_slurm_has_its_node(stage: Stage) -> None:
    site, tiny = stage.site, stage.family.tiny
    way = policy if has_policies(site) else webhook
    tried = f"/api/v1/namespaces/{stage.namespace}/pods?dryRun=All"
    with way(site):
        site.wait_for(
            lambda: gates(site.kube.api("POST", tried, pod("tried", stage.namespace))[1]) == [GATE],
            "the API server has taken it up",
            timeout_s=60,
            every_s=0.3,
        )
        first = stage.pod("first", partition=tiny, cpus=4)
        site.bound(first)
        waits = stage.pod("waits", partition=tiny, cpus=4)
        stage.job(waits)
        assert gates(site.read(waits)) == [GATE]
        others = site.pod("others", stage.namespace, scheduler="another")
        assert gates(site.read(others)) == []
        assert verdicts(examined(site, *as_administrator(site)))["gates"] == {"ok"}
        site.delete(first)
        site.bound(waits, timeout_s=40)
        assert gates(site.read(waits)) == []


@contextmanager
def opt_in_policy(site: Site) -> Iterator[None]:
    documents = manifests.render(site.kube, manifests.BASE, ["namespace-opt-in"])
    with applied(site, manifests.of_kind(documents, ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"])):
        yield


@pytest.mark.every_kubernetes
@pytest.mark.modes("batch", slow=("24.11",))
def test_pods_of_a_namespace_with_the_label_go_to_slurm_as_they_are(stage: Stage) -> None:
    site = stage.site
    way = opt_in_policy if has_policies(site) else webhook
    tried = f"/api/v1/namespaces/{stage.namespace}/pods?dryRun=All"
    plain = pod("plain", stage.namespace)
    plain["spec"]["schedulerName"] = "default-scheduler"

    def placed(**changed: Any) -> str:
        one = {**plain, "metadata": {**plain["metadata"], **changed.pop("metadata", {})}}
        one["spec"] = {**plain["spec"], **changed}
        found = site.kube.api("POST", tried, one)[1]
        assert gates(found) == ([GATE] if found["spec"]["schedulerName"] != "default-scheduler" else [])
        return str(found["spec"]["schedulerName"])

    name = "slurm"
    with way(site):
        site.kube.kubectl("label", "namespace", stage.namespace, f"{OPT_IN_LABEL}={name}", "--overwrite")
        try:
            site.wait_for(lambda: placed() == name, "the API server has taken it up", timeout_s=60, every_s=0.3)
            assert placed(hostNetwork=True) == "default-scheduler"
            assert placed(metadata={"annotations": {OPT_OUT: "true"}}) == "default-scheduler"
        finally:
            site.kube.kubectl("label", "namespace", stage.namespace, f"{OPT_IN_LABEL}-")
