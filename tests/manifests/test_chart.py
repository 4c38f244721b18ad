"""The chart gives the same objects as the kustomizations, and names the key of a value that means nothing."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest
import yaml

from docs.generate.chart_readme import render as page
from docs.generate.values_schema import render as schema
from extender import __version__
from lab.errors import LabError
from lab.helm import CHART, helm, template, with_image
from lab.manifests import Document, kustomize
from tests.builders.kustomize import BASE, CORE, ROOT, documents

ALIKE: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "base": ([], {}, "1.36"),
    "graces-unbounded": ([], {"maxGraceSeconds": None}, "1.36"),
    "tls": (["tls", "certificates"], {"tls": "certificates"}, "1.36"),
    "cert-manager": (["tls", "cert-manager"], {"tls": "cert-manager"}, "1.36"),
    "gate-policy": (["gate-policy", "namespace-opt-in"], {"schedulingGate": "policy"}, "1.36"),
    "gate-webhook": (["gate-webhook", "certificates"], {"schedulingGate": "webhook"}, "1.36"),
    "gate-webhook-cert-manager": (
        ["tls", "gate-webhook", "cert-manager", "cert-manager-webhook"],
        {"schedulingGate": "webhook", "tls": "cert-manager"},
        "1.36",
    ),
    "everything": (
        [
            "tls",
            "certificates",
            "gate-policy",
            "namespace-opt-in",
            "no-growth",
            "pod-groups",
            "devices",
            "cpus",
            "no-force-deletion",
            "network-policies",
            "prometheus",
            "alerts",
            "runbook-links",
            "dashboard",
            "hooks-nodeport",
        ],
        {
            "tls": "certificates",
            "schedulingGate": "policy",
            "noGrowth": True,
            "podGroups": ["scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh"],
            "devices": True,
            "cpus": 1,
            "noForceDeletion": True,
            "closed": True,
            "prometheus": True,
            "alerts": True,
            "site": "https://slurm-extender.example.org/",
            "dashboard": True,
            "hooks": {"type": "NodePort"},
        },
        "1.36",
    ),
    "few": (
        ["single-replica", "hooks-loadbalancer", "pod-policy"],
        {
            "replicas": 1,
            "hooks": {"type": "LoadBalancer"},
            "podPolicy": {"owners": [], "rules": [], "priorityClasses": {}},
        },
        "1.36",
    ),
    **{
        f"kubernetes-{minor}": ([f"kubernetes-{minor}"], {}, minor)
        for minor in ("1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
    },
}
"""What stands for what: components on the base, values of the chart, and the cluster's version."""

PLAIN = {"tls": "none", "schedulingGate": "none"}
"""Values for what the base has without components."""

SAID_BY_EACH = {"app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart"}


def test_the_schema_is_what_the_configuration_and_the_chart_say() -> None:
    stale = "stale: python -m docs.generate.values_schema > manifests/chart/values.schema.json"
    assert (CHART / "values.schema.json").read_text() == schema(), stale


def test_the_chart_has_the_version_of_the_program() -> None:
    [chart] = documents(CHART / "Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_configuration_of_the_chart_is_that_of_the_base() -> None:
    [values] = documents(CHART / "values.yaml")
    [config] = documents(CORE / "config.yaml")
    assert {"apiVersion": config["apiVersion"], "kind": config["kind"], **values["config"]} == config


def rules(text: str) -> list[str]:
    """What roles allow, line by line."""
    return re.findall(r"^ +-? ?(?:apiGroups|resources|resourceNames|verbs|nonResourceURLs): .*$", text, re.MULTILINE)


@pytest.mark.parametrize("file", sorted(path.name for path in CORE.glob("rbac-*.yaml")))
def test_a_role_that_changes_in_the_base_changes_in_the_chart(file: str) -> None:
    assert rules((CHART / "templates" / file).read_text()) == rules((CORE / file).read_text())


def by_name(found: list[Document]) -> dict[tuple[str, str, str], Document]:
    """What counts of each object: not who made it, not how a changed ConfigMap makes its Pods change."""
    plain = {}
    for one in deepcopy(found):
        if "helm.sh/hook" in one["metadata"].get("annotations", {}):
            continue  # kustomize has no tests
        text = yaml.safe_dump(one)
        one = yaml.safe_load(re.sub(r"((?:extender|scheduler)-config)-[a-z0-9]{10}\b", r"\1", text))
        meta = one["metadata"]
        meta["labels"] = {key: value for key, value in meta.get("labels", {}).items() if key not in SAID_BY_EACH}
        if one["kind"] == "ConfigMap":
            one["data"] = {key: yaml.safe_load(value) for key, value in one["data"].items()}
        for pod in pods_of(one):
            about = pod.get("metadata", {})
            about.get("annotations", {}).pop("checksum/config", None)
            if not about.get("annotations", True):
                del about["annotations"]
            for container in pod["spec"]["containers"]:
                container["image"] = container["image"].partition(":")[0]
                container.pop("imagePullPolicy", None)
                for key in ("env", "ports", "volumeMounts"):
                    container[key] = sorted(container.get(key, ()), key=lambda each: str(each["name"]))
            pod["spec"]["volumes"] = sorted(pod["spec"].get("volumes", ()), key=lambda each: str(each["name"]))
        if one["kind"] == "Job":
            meta["name"] = meta["name"].removesuffix("-1")  # Each revision of a release has one of its own.
        if one["kind"] == "Service":
            one["spec"].setdefault("type", "ClusterIP")
        plain[(one["kind"], meta.get("namespace", ""), meta["name"])] = one
    return plain


def pods_of(one: Document) -> list[Document]:
    spec = one.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    return [spec["template"]] if "template" in spec else []


@pytest.mark.lab
@pytest.mark.parametrize("case", ALIKE)
def test_chart_and_kustomize_give_the_same_objects(case: str) -> None:
    components, values, minor = ALIKE[case]
    if values.get("maxGraceSeconds", True):
        components = ["grace-policy", *components]  # the chart bounds graces unless it is told not to
    theirs = by_name(kustomize(CORE, components))
    ours = by_name(template({"createNamespace": True, "hooksKeySecret": "", **PLAIN, **values}, minor=minor))
    assert ours.keys() == theirs.keys()
    for name, one in ours.items():
        assert one == theirs[name], name


def test_the_base_and_the_chart_bound_graces_by_default() -> None:
    """Shown without kubectl and Helm, which the comparison of all objects needs."""
    [values], [base] = documents(CHART / "values.yaml"), documents(BASE / "kustomization.yaml")
    assert values["maxGraceSeconds"] == 3600
    assert "../components/grace-policy" in base["components"]
    for overlay in (ROOT / "manifests" / "overlays").glob("*/kustomization.yaml"):
        [one] = documents(overlay)
        on_the_base = "../../base" in one["resources"]
        has_certificates = "../../components/tls" in one.get("components", ())
        assert on_the_base or not has_certificates or "../../components/grace-policy" in one["components"], overlay


@pytest.mark.lab
@pytest.mark.parametrize("minor", ["1.34", "1.36"])
def test_gates_and_tls_of_the_base_are_those_of_the_chart(minor: str) -> None:
    base = by_name(kustomize(BASE, [f"kubernetes-{minor}"]))
    gate = "policy" if minor == "1.36" else "none"
    chart = by_name(template({"createNamespace": True, "hooksKeySecret": "", "schedulingGate": gate}, minor=minor))
    opt_in = {name for name in chart if name[2] == "slurm-extender-opt-in"}
    assert base == {name: one for name, one in chart.items() if name not in opt_in}


@pytest.mark.lab
@pytest.mark.parametrize(
    ("more", "components"),
    [({}, ["namespaced-rights"]), ({"readPods": "namespaces"}, ["namespaced-rights", "namespaced-reads"])],
    ids=["writes", "reads"],
)
def test_rights_in_some_namespaces_are_the_same_in_chart_and_component(
    more: dict[str, str], components: list[str]
) -> None:
    kinds = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    chart = template({"hooksKeySecret": "", **PLAIN, "config": {"scope": {"namespaces": ["default"], **more}}})
    component = kustomize(CORE, components)
    first, second = (
        {key: one for key, one in by_name(found).items() if key[0] in kinds} for found in (chart, component)
    )
    assert first == second
    writes = {("pods", verb) for verb in ("patch", "delete")} | {
        ("pods/binding", "create"),
        ("pods/eviction", "create"),
    }
    for (kind, _, name), one in second.items():
        if kind == "ClusterRole" and name == "slurm-extender":
            given = {(what, verb) for rule in one["rules"] for what in rule["resources"] for verb in rule["verbs"]}
            assert not given & writes
            assert bool(more) is not (("pods", "list") in given)


@pytest.mark.lab
def test_the_chart_can_live_in_another_namespace() -> None:
    found = template({"tls": "certificates", "schedulingGate": "webhook", "closed": True}, namespace="elsewhere")
    assert "slurm-extender.svc" not in yaml.safe_dump_all(found).replace("slurm-extender.elsewhere.svc", "")
    homes = {one["metadata"].get("namespace") for one in found}
    assert homes == {None, "elsewhere", "kube-system", "kube-node-lease"}
    for one in found:
        for subject in one.get("subjects", ()):
            assert subject["namespace"] == "elsewhere"


EVERYTHING: dict[str, Any] = {
    **dict.fromkeys(("devices", "noGrowth", "noForceDeletion", "closed", "prometheus", "alerts", "dashboard"), True),
    "podGroups": ["scheduling.x-k8s.io"],
    "config": {"scope": {"namespaces": ["ml"]}},
}


@pytest.mark.lab
@pytest.mark.parametrize("gate", ["policy", "webhook"])
def test_two_releases_in_two_namespaces_have_no_object_in_common(gate: str) -> None:
    def named(namespace: str) -> dict[tuple[str, str, str], Document]:
        found = template({**EVERYTHING, "schedulingGate": gate}, namespace=namespace)
        return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in found}

    first, second = named("slurm-extender"), named("other")
    assert len(first) == len(second) > 70
    assert not first.keys() & second.keys()
    for one in second.values():
        if (role := one.get("roleRef")) and not role["name"].startswith(("system:", "extension-")):
            home = one["metadata"]["namespace"] if role["kind"] == "Role" else ""
            assert (role["kind"], home, role["name"]) in second
        if one["kind"].endswith("PolicyBinding"):
            assert (one["kind"].removesuffix("Binding"), "", one["spec"]["policyName"]) in second


@pytest.mark.lab
@pytest.mark.parametrize(
    ("minor", "found"), [("1.34", "MutatingWebhookConfiguration"), ("1.36", "MutatingAdmissionPolicy")]
)
def test_gates_and_certificates_are_on_by_default(minor: str, found: str) -> None:
    shown = template({}, minor=minor)
    assert found in {one["kind"] for one in shown}
    assert "slurm-extender-tls" in yaml.safe_dump_all(shown)
    [profile] = [one["data"]["kube-scheduler.yaml"] for one in shown if one["metadata"]["name"] == "scheduler-config"]
    assert yaml.safe_load(profile)["extenders"][0]["urlPrefix"].startswith("https://")


@pytest.mark.lab
def test_a_policy_that_an_administrator_turned_on_is_used_as_a_beta() -> None:
    beta = "--api-versions=admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy"
    text = helm("template", "x", str(CHART), "--kube-version=v1.34.2", beta, values=with_image({}))
    found = [one for one in yaml.safe_load_all(text) if one and one["kind"] == "MutatingAdmissionPolicy"]
    assert {one["apiVersion"] for one in found} == {"admissionregistration.k8s.io/v1beta1"}
    assert len(found) == 3


@pytest.mark.lab
@pytest.mark.parametrize(
    ("values", "version", "said"),
    [
        ({"schedulingGate": "policy"}, "v1.34.2", "this is v1.34.2. Set schedulingGate: webhook"),
        ({"noGrowth": True}, "v1.32.9", "noGrowth needs Kubernetes 1.33"),
        ({"image": {"repository": ""}}, "v1.36.3", "image.repository: no registry has the image of the extender yet"),
    ],
    ids=["policy", "resize", "image"],
)
def test_what_this_cluster_cannot_have_is_refused_with_a_sentence(
    values: dict[str, Any], version: str, said: str
) -> None:
    with pytest.raises(LabError, match=said):
        helm("template", "x", str(CHART), f"--kube-version={version}", values=with_image(values))


@pytest.mark.lab
def test_rights_to_write_are_roles_of_the_namespaces_that_are_served() -> None:
    found = template({"config": {"scope": {"namespaces": ["ml", "web"]}}})
    [cluster] = [one for one in found if one["kind"] == "ClusterRole" and one["metadata"]["name"] == "slurm-extender"]
    allowed = {(name, verb) for rule in cluster["rules"] for name in rule["resources"] for verb in rule["verbs"]}
    assert allowed == {
        *(("pods", verb) for verb in ("get", "list", "watch")),
        *(("nodes", verb) for verb in ("get", "list", "watch", "patch")),
        *(("namespaces", verb) for verb in ("get", "list", "watch")),
        *(("deviceclasses", verb) for verb in ("list", "watch")),
        ("nodes/status", "patch"),
    }
    roles = [one for one in found if one["kind"] == "Role" and one["metadata"]["name"] == "slurm-extender-pods"]
    assert {one["metadata"]["namespace"] for one in roles} == {"ml", "web"}
    everywhere = next(one for one in documents(CORE / "rbac-extender.yaml") if one["kind"] == "ClusterRole")
    events = [one for one in found if one["kind"] == "Role" and one["metadata"]["name"] == "slurm-extender-events"]
    assert {one["metadata"]["namespace"] for one in events} == {"slurm-extender", "default", "ml", "web"}
    together = allowed | {
        (name, verb)
        for one in (roles[0], events[0])
        for rule in one["rules"]
        for name in rule["resources"]
        for verb in rule["verbs"]
    }
    assert together == {
        (name, verb) for rule in everywhere["rules"] for name in rule["resources"] for verb in rule["verbs"]
    }


@pytest.mark.lab
def test_a_site_adds_to_the_pods_of_the_chart_what_it_needs() -> None:
    volume = {"name": "authority", "configMap": {"name": "slurmrestd"}}
    mount = {"name": "authority", "mountPath": "/etc/authority"}
    found = template(
        {
            "extraVolumes": [volume],
            "extraVolumeMounts": [mount],
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
            "extraArgs": ["--set=slurm.killWait=60s"],
            "podAnnotations": {"team": "hpc"},
            "podLabels": {"cost": "7"},
            "serviceAccounts": {"annotations": {"role": "arn"}},
            "scheduler": {"extraArgs": ["--v=4"]},
        }
    )
    by = {(one["kind"], one["metadata"]["name"]): one for one in found}
    [extender] = pods_of(by["Deployment", "slurm-extender"])
    [container] = extender["spec"]["containers"]
    assert volume in extender["spec"]["volumes"]
    assert mount in container["volumeMounts"]
    assert {"name": "HTTPS_PROXY", "value": "http://proxy"} in container["env"]
    assert container["args"][-1] == "--set=slurm.killWait=60s"
    [scheduler] = pods_of(by["Deployment", "slurm-scheduler"])
    assert scheduler["spec"]["containers"][0]["command"][-1] == "--v=4"
    for pod in (pod for one in found for pod in pods_of(one)):
        assert pod["metadata"]["annotations"]["team"] == "hpc"
        assert pod["metadata"]["labels"]["cost"] == "7"
    for name in ("slurm-extender", "slurm-scheduler"):
        assert by["ServiceAccount", name]["metadata"]["annotations"] == {"role": "arn"}
    there = template({"serviceAccounts": {"create": False}})
    assert not {"slurm-extender", "slurm-scheduler"} & {
        one["metadata"]["name"] for one in there if one["kind"] == "ServiceAccount"
    }


@pytest.mark.lab
def test_existing_secrets_are_read_by_the_keys_that_they_have() -> None:
    found = template({"secretName": "slurm-token", "tokenKey": "auth-token", "hooksKeySecret": "k", "hooksKey": "own"})
    [extender] = [one for one in found if one["metadata"]["name"] == "slurm-extender" and one["kind"] == "Deployment"]
    [volume] = [one for one in pods_of(extender)[0]["spec"]["volumes"] if one["name"] == "secret"]
    items = [(one["secret"]["name"], one["secret"].get("items")) for one in volume["projected"]["sources"]]
    assert items == [
        ("slurm-token", None),
        ("slurm-token", [{"key": "auth-token", "path": "token"}]),
        ("k", [{"key": "own", "path": "hooks-key"}]),
    ]
    [key] = [one for one in found if one["kind"] == "Secret"]
    assert list(key["data"]) == ["own"]


@pytest.mark.lab
def test_a_load_balancer_and_monitors_have_what_their_controllers_require() -> None:
    hooks = {
        "type": "LoadBalancer",
        "annotations": {"internal": "true"},
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "loadBalancerClass": "metallb",
    }
    monitors = {"labels": {"release": "prometheus"}, "interval": "15s"}
    found = template({"hooks": hooks, "monitors": monitors, "prometheus": True, "alerts": True})
    by = {(one["kind"], one["metadata"]["name"]): one for one in found}
    service = by["Service", "slurm-extender-hooks"]
    assert service["metadata"]["annotations"] == {"internal": "true"}
    assert (service["spec"]["loadBalancerSourceRanges"], service["spec"]["loadBalancerClass"]) == (
        ["10.0.0.0/8"],
        "metallb",
    )
    chosen = [one for (kind, _), one in by.items() if kind in {"PodMonitor", "ServiceMonitor", "PrometheusRule"}]
    assert [one["metadata"]["labels"]["release"] for one in chosen] == ["prometheus"] * 3
    assert by["PodMonitor", "slurm-extender"]["spec"]["podMetricsEndpoints"][0]["interval"] == "15s"


@pytest.mark.lab
def test_helm_test_runs_the_doctor_as_the_extender() -> None:
    changed = ["--set=slurm.killWait=60s", "--set", "slurm.user=root"]
    found = template({"podPolicy": {"rules": []}, "extraArgs": ["--dry-run", *changed, "--watch-namespace=ml"]})
    [test] = [one for one in found if one["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"]
    [extender] = [
        pods_of(one)[0]["spec"]
        for one in found
        if one["kind"] == "Deployment" and one["metadata"]["name"] == "slurm-extender"
    ]
    [doctor], [served] = test["spec"]["containers"], extender["containers"]
    assert doctor["args"] == ["doctor", "--config=/etc/slurm-extender/config/config.yaml", *changed]
    assert (doctor["volumeMounts"], test["spec"]["volumes"]) == (served["volumeMounts"], extender["volumes"])
    own = {"SLURM_EXTENDER__LEADER_ELECTION__IDENTITY"}
    assert {one["name"] for one in doctor["env"]} == {one["name"] for one in served["env"]} - own
    # No Service leads there.
    assert test["metadata"]["labels"]["app.kubernetes.io/name"] == "slurm-extender-test"


def test_the_files_of_the_chart_are_those_of_the_components() -> None:
    for path, name in (("alerts", "rules.yaml"), ("dashboard", "dashboard.json")):
        copy = CHART / "files" / name
        assert not copy.is_symlink()
        assert copy.read_text() == (CORE.parent / "components" / path / name).read_text(), f"cp it over {copy}"


def test_the_page_of_the_chart_names_every_value() -> None:
    stale = "stale: python -m docs.generate.chart_readme > manifests/chart/README.md"
    assert (CHART / "README.md").read_text() == page(), stale


@pytest.mark.lab
@pytest.mark.parametrize("version", ["v1.34.2", "v1.34.2-eks-3025e55", "v1.34.2+k3s1", "v1.34.2-gke.1060000"])
def test_the_image_of_kube_scheduler_has_no_suffix_of_a_distribution(version: str) -> None:
    found = [
        one
        for one in yaml.safe_load_all(
            helm("template", "x", str(CHART), f"--kube-version={version}", values=with_image({}))
        )
        if one
    ]
    [scheduler] = [
        pod["spec"]["containers"][0]
        for one in found
        if one["metadata"]["name"] == "slurm-scheduler"
        for pod in pods_of(one)
    ]
    assert scheduler["image"] == "registry.k8s.io/kube-scheduler:v1.34.2"
    assert "--feature-gates=SchedulerPopFromBackoffQ=false,SchedulerAsyncAPICalls=false" in scheduler["command"]


@pytest.mark.lab
def test_every_pod_of_the_chart_runs_where_it_may() -> None:
    place: dict[str, Any] = {
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "pool", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "imagePullSecrets": [{"name": "pull"}],
    }
    pods = [pod["spec"] for one in template({"tls": "certificates", "cpus": 3, **place}) for pod in pods_of(one)]
    of_every_node = [pod for pod in pods if pod["serviceAccountName"] == "slurm-extender-cpus"]
    assert (len(pods), len(of_every_node)) == (5, 1)
    for pod in pods:
        assert pod["imagePullSecrets"] == place["imagePullSecrets"]
        if pod not in of_every_node:
            assert {key: pod.get(key) for key in place} == place
        else:
            assert ("nodeSelector" in pod, pod["tolerations"]) == (False, [{"operator": "Exists"}])


@pytest.mark.lab
def test_the_extender_reads_the_key_that_the_chart_made_where_it_reads_one_of_its_own_secret() -> None:
    found = template({})
    [key] = [one for one in found if one["kind"] == "Secret"]
    [extender] = [one for one in found if one["metadata"]["name"] == "slurm-extender" and one["kind"] == "Deployment"]
    [volume] = [one for one in pods_of(extender)[0]["spec"]["volumes"] if one["name"] == "secret"]
    assert [each["secret"]["name"] for each in volume["projected"]["sources"]] == [
        "slurm-extender",
        key["metadata"]["name"],
    ]
    [config] = [one["data"]["config.yaml"] for one in found if one["metadata"]["name"] == "extender-config"]
    assert yaml.safe_load(config)["hooks"]["keyFile"] == "/etc/slurm-extender/secret/hooks-key"
    assert list(key["data"]) == ["hooks-key"]
