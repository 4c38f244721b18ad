"""The chart gives the same objects as the kustomizations, and names the key of a value that means nothing."""

from __future__ import annotations

import base64
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.generate.values_schema import render as schema
from extender import __version__
from lab.errors import LabError
from lab.helm import CHART, helm, template
from lab.kube import Kubernetes
from lab.manifests import Document, kustomize
from tests.builders.kustomize import BASE, ROOT, documents

ALIKE: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "base": ([], {}, "1.36"),
    "graces-unbounded": ([], {"maxGraceSeconds": None}, "1.36"),
    "tls": (["tls", "certificates"], {"tls": "certificates"}, "1.36"),
    "cert-manager": (["tls", "cert-manager"], {"tls": "cert-manager"}, "1.36"),
    "gate-policy": (["gate-policy"], {"gate": "policy"}, "1.36"),
    "gate-webhook": (["gate-webhook", "certificates"], {"gate": "webhook"}, "1.36"),
    "gate-webhook-cert-manager": (
        ["tls", "gate-webhook", "cert-manager", "cert-manager-webhook"],
        {"gate": "webhook", "tls": "cert-manager"},
        "1.36",
    ),
    "everything": (
        [
            "tls",
            "certificates",
            "gate-policy",
            "no-growth",
            "pod-groups",
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
            "gate": "policy",
            "noGrowth": True,
            "podGroups": ["scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh"],
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
        for minor in ("1.32", "1.33", "1.34", "1.35", "1.36")
    },
}
"""What stands for what: components on the base, values of the chart, and the cluster's version."""

SAID_BY_EACH = {"app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart"}


def test_the_schema_is_what_the_configuration_and_the_chart_say() -> None:
    stale = "stale: python -m docs.generate.values_schema > manifests/chart/values.schema.json"
    assert (CHART / "values.schema.json").read_text() == schema(), stale


def test_the_chart_carries_the_version_of_the_program() -> None:
    [chart] = documents(CHART / "Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_configuration_of_the_chart_is_that_of_the_base() -> None:
    [values] = documents(CHART / "values.yaml")
    [config] = documents(BASE / "config.yaml")
    assert {"apiVersion": config["apiVersion"], "kind": config["kind"], **values["config"]} == config


def rules(text: str) -> list[str]:
    """What roles allow, line by line."""
    return re.findall(r"^ +-? ?(?:apiGroups|resources|resourceNames|verbs|nonResourceURLs): .*$", text, re.MULTILINE)


@pytest.mark.parametrize("file", sorted(path.name for path in BASE.glob("rbac-*.yaml")))
def test_a_role_that_changes_in_the_base_changes_in_the_chart(file: str) -> None:
    assert rules((CHART / "templates" / file).read_text()) == rules((BASE / file).read_text())


# By helm and kubectl.


def by_name(found: list[Document]) -> dict[tuple[str, str, str], Document]:
    """What counts of each object: not who made it, not how a changed ConfigMap makes its Pods change."""
    plain = {}
    for one in deepcopy(found):
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
    theirs = by_name(kustomize(BASE, components))
    ours = by_name(template({"createNamespace": True, "hooksKeySecret": "", **values}, minor=minor))
    assert ours.keys() == theirs.keys()
    for name, one in ours.items():
        assert one == theirs[name], name


@pytest.mark.lab
def test_the_chart_can_live_in_another_namespace() -> None:
    found = template({"tls": "certificates", "gate": "webhook", "closed": True}, namespace="elsewhere")
    assert "slurm-extender.svc" not in yaml.safe_dump_all(found).replace("slurm-extender.elsewhere.svc", "")
    homes = {one["metadata"].get("namespace") for one in found}
    assert homes == {None, "elsewhere", "kube-system", "kube-node-lease"}
    for one in found:
        for subject in one.get("subjects", ()):
            assert subject["namespace"] == "elsewhere"


@pytest.mark.lab
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replica": 2}, r"additional properties 'replica' not allowed"),
        ({"replicas": 0}, r"(?s)/replicas.*minimum"),
        ({"tls": "on"}, r"(?s)/tls.*'certificates'"),
        ({"hooks": {"kind": "NodePort"}}, r"(?s)/hooks.*'kind'"),
        ({"config": {"slurm": {"killwait": "30s"}}}, r"(?s)/config/slurm.*'killwait'"),
        ({"config": {"slurm": {"killWait": []}}}, r"(?s)/config/slurm/killWait"),
        ({"podPolicy": {"rule": []}}, r"(?s)/podPolicy.*'rule'"),
        ({"site": "pages"}, r"(?s)/site.*pattern"),
        ({"image": {"pullPolicy": "Sometimes"}}, r"(?s)/image/pullPolicy"),
        ({"image": {"tag": 1.1}}, r"(?s)/image/tag"),
        ({"replicas": "2"}, r"(?s)/replicas"),
        ({"tolerations": [{"keys": "a"}]}, r"(?s)/tolerations/0.*'keys'"),
        ({"tls": None}, r"(?s)missing property 'tls'"),
        ({"hooks": None}, r"(?s)missing property 'hooks'"),
        ({"image": {"repository": None}}, r"(?s)/image.*missing property 'repository'"),
        ({"config": {"slurm": None}}, r"(?s)/config.*missing property 'slurm'"),
        ({"config": {"scheduler": None}}, r'config.scheduler.name is ""'),
        ({"config": {"scheduler": {"name": "it's"}}}, r"config.scheduler.name is \"it's\""),
        ({"config": {"http": None}}, r'config.http.bind is "": it must be ":8080"'),
        ({"config": {"http": {"bind": ":9090"}}}, r'config.http.bind is ":9090": it must be ":8080"'),
        ({"config": {"observability": {"healthBind": ":1"}}}, r'config.observability.healthBind is ":1"'),
        (
            {"config": {"http": {"tls": {"certificateFile": "c", "keyFile": "k"}}}},
            r"config.http.tls: the chart sets it",
        ),
        ({"config": {"admission": {"bind": ":8443"}}}, r"config.admission: the chart sets it"),
        ({"config": {"gangs": {"podGroups": ["scheduling.k8s.io"]}}}, r"config.gangs.podGroups: the chart sets it"),
        ({"podGroups": ["scheduling.example.org"]}, r"podGroups"),
        ({"config": {"leaderElection": {"leaseName": "x"}}}, r"config.leaderElection.leaseName: it must be"),
    ],
    ids=str,
)
def test_wrong_values_are_refused_by_the_name_of_their_key(values: dict[str, Any], said: str) -> None:
    with pytest.raises(LabError, match=said):
        template(values)


@pytest.mark.lab
def test_a_name_that_looks_like_a_number_stays_a_name() -> None:
    found = template({"config": {"scheduler": {"name": "1.5"}}, "gate": "policy"})
    [profile] = [one["data"]["kube-scheduler.yaml"] for one in found if "scheduler-config" in one["metadata"]["name"]]
    assert yaml.safe_load(profile)["profiles"][0]["schedulerName"] == "1.5"


@pytest.mark.lab
def test_without_hooks_nothing_is_said_of_them() -> None:
    found = template({"config": {"hooks": None}})
    [config] = [one["data"]["config.yaml"] for one in found if one["metadata"]["name"] == "extender-config"]
    assert "hooks" not in yaml.safe_load(config)


@pytest.mark.lab
@pytest.mark.parametrize("version", ["v1.34.2", "v1.34.2-eks-3025e55", "v1.34.2+k3s1", "v1.34.2-gke.1060000"])
def test_the_image_of_kube_scheduler_has_no_suffix_of_a_distribution(version: str) -> None:
    found = [one for one in yaml.safe_load_all(helm("template", "x", str(CHART), f"--kube-version={version}")) if one]
    [scheduler] = [
        pod["spec"]["containers"][0]
        for one in found
        if one["metadata"]["name"] == "slurm-scheduler"
        for pod in pods_of(one)
    ]
    assert scheduler["image"] == "kube-scheduler:v1.34.2"
    assert "--feature-gates=SchedulerPopFromBackoffQ=false,SchedulerAsyncAPICalls=false" in scheduler["command"]


@pytest.mark.lab
def test_every_pod_of_the_chart_runs_where_it_may() -> None:
    place: dict[str, Any] = {
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "pool", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "imagePullSecrets": [{"name": "pull"}],
    }
    pods = [pod["spec"] for one in template({"tls": "certificates", **place}) for pod in pods_of(one)]
    assert len(pods) == 4
    for pod in pods:
        assert {key: pod.get(key) for key in place} == place


@pytest.mark.lab
def test_a_closed_namespace_opens_the_way_to_what_is_configured() -> None:
    slurm = {"addresses": ["https://a", "http://[::1]:6821", "http://b:6820", "http://c:6820", "unix:/run/s"]}
    traces = {"tracesEndpoint": "http://collector:4318"}
    found = template({"closed": True, "config": {"slurm": slurm, "observability": traces}})
    [out] = [one for one in found if one["metadata"]["name"] == "slurm-extender-out"]
    ports = [port["port"] for port in out["spec"]["egress"][2]["ports"]]
    assert ports == [443, 6821, 6820, 4318]


@pytest.mark.lab
def test_the_chart_is_installed_changed_and_taken_out_again(tmp_path: Path) -> None:
    with Kubernetes(controllers=False, workdir=tmp_path) as kube:
        where = ("slurm-extender", str(CHART), f"--kubeconfig={kube.kubeconfig}", "--namespace=elsewhere")
        said = helm("install", *where, "--create-namespace", values={"gate": "policy"})
        assert "kubectl -n elsewhere create secret generic slurm-extender" in said
        assert "--from-literal=hooks-key" not in said
        made = hooks_key(kube)
        assert len(made) == 64
        assert "--set tls=certificates" in said
        assert "config.hooks.url is not set" in said
        hooks = {"config": {"hooks": {"url": "http://hooks.example.org:8000"}}}
        said = helm("upgrade", *where, values={"gate": "webhook", "tls": "certificates", "noGrowth": True, **hooks})
        assert "--set tls" not in said
        with pytest.raises(LabError, match=r"ClusterRole \"slurm-extender\" .*invalid ownership metadata"):
            helm("install", "second", *where[1:-1], "--namespace=another", "--create-namespace")
        # Its Job has not begun, and cannot be changed.
        more = {"gate": "webhook", "tls": "certificates", "image": {"repository": "elsewhere/slurm-extender"}}
        helm("upgrade", *where, values={**more, **hooks})
        [job] = kube.kubectl("get", "jobs", "-n", "elsewhere", "-o", "name").split()
        assert job == "job.batch/slurm-extender-certificates-3"
        assert "hooks.url" not in said
        assert hooks_key(kube) == made
        kinds = "deployment,configmap,service,role,clusterrole,mutatingwebhookconfiguration,cronjob,networkpolicy"
        ours = ("get", kinds, "-A", "-l", "app.kubernetes.io/instance=slurm-extender", "-o", "name")
        assert "mutatingwebhookconfiguration.admissionregistration.k8s.io/slurm-extender-gate" in kube.kubectl(*ours)
        helm("uninstall", *where[:1], *where[2:])
        assert kube.kubectl(*ours) == ""
        assert hooks_key(kube) == made
        helm("install", *where)
        assert hooks_key(kube) == made
        kube.kubectl("create", "secret", "generic", "own", "-n", "elsewhere", "--from-literal=hooks-key=mine")
        helm("upgrade", *where, values={"hooksKeySecret": "own"})
        assert hooks_key(kube, "own") == b"mine"


def hooks_key(kube: Kubernetes, name: str = "slurm-extender-hooks") -> bytes:
    text = kube.kubectl("get", "secret", name, "-n", "elsewhere", "-o", "jsonpath={.data.hooks-key}")
    return base64.b64decode(text)


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


def test_every_value_is_described() -> None:
    [values] = documents(CHART / "values.yaml")
    assert (ROOT / "manifests" / "chart" / "values.yaml").read_text().startswith("# values.schema.json")
    properties = yaml.safe_load((CHART / "values.schema.json").read_text())["properties"]
    assert values.keys() | {"global"} == properties.keys()
    assert all(one["description"] for one in properties.values())
