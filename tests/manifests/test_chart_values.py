"""The chart refuses values that mean nothing, by the name of their key, and renders all others."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lab.errors import LabError
from lab.helm import CHART, template
from tests.builders.kustomize import ROOT, documents

IMAGE = {"image": {"repository": "slurm-extender"}}

DEVICE = {"gres": "gpu", "driver": "d", "deviceClasses": ["d"], "match": {"attribute": "index"}}


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
        ({"disruptionBudget": {"maxUnavailable": 0}}, r"(?s)/disruptionBudget/maxUnavailable"),
        ({"closed": True, "networkPolicy": {"enabled": False}}, r"closed: networkPolicy.enabled must be true"),
        ({"hooks": None}, r"(?s)missing property 'hooks'"),
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
        ({"config": {"devices": [DEVICE]}}, r"config.devices is given: devices must be true"),
        ({"config": {"cpus": {}}}, r"config.cpus is given: devices must be true"),
        ({"config": {"leaderElection": {"leaseName": "x"}}}, r"config.leaderElection.leaseName: it must be"),
        ({"config": {"leaderElection": {"enabled": False}}}, r"config.leaderElection.enabled: it must be true"),
        ({"config": {"leaderElection": {"namespace": "x"}}}, r"config.leaderElection.namespace: the chart sets it"),
        ({"config": {"leaderElection": {"identity": "x"}}}, r"config.leaderElection.identity: the chart sets it"),
        ({"config": {"leaderElection": {"advertise": "x"}}}, r"config.leaderElection.advertise: the chart sets it"),
        ({"config": {"leaderElection": {"tlsServerName": "x"}}}, r"config.leaderElection.tlsServerName: the chart"),
        (
            {"config": {"jobs": {"policyFile": "/p"}}, "podPolicy": {"rules": []}},
            r"config.jobs.policyFile and podPolicy",
        ),
    ],
    ids=str,
)
def test_wrong_values_are_refused_by_the_name_of_their_key(values: dict[str, Any], said: str) -> None:
    with pytest.raises(LabError, match=said):
        template(values)


@pytest.mark.lab
@pytest.mark.parametrize(
    "values",
    [
        {"extraArgs": None},
        {"dashboard": True, "dashboardLabels": None},
        {"dashboard": True, "dashboardLabels": {"grafana_dashboard": None}},
        {"config": {"leaderElection": {"enabled": True, "leaseDuration": "20s"}}},
        {"config": {"jobs": {"policyFile": "/etc/site/policy.yaml"}}},
    ],
    ids=str,
)
def test_values_without_a_default_and_those_that_agree_with_the_chart_render(values: dict[str, Any]) -> None:
    assert template(values)


@pytest.mark.lab
def test_a_name_that_resembles_a_number_stays_a_name() -> None:
    found = template({"config": {"scheduler": {"name": "1.5"}}, "schedulingGate": "policy"})
    [profile] = [one["data"]["kube-scheduler.yaml"] for one in found if "scheduler-config" in one["metadata"]["name"]]
    assert yaml.safe_load(profile)["profiles"][0]["schedulerName"] == "1.5"


@pytest.mark.lab
def test_without_hooks_nothing_is_said_of_them() -> None:
    found = template({"config": {"hooks": None}})
    [config] = [one["data"]["config.yaml"] for one in found if one["metadata"]["name"] == "extender-config"]
    assert "hooks" not in yaml.safe_load(config)


def test_every_value_is_described() -> None:
    [values] = documents(CHART / "values.yaml")
    assert (ROOT / "manifests" / "chart" / "values.yaml").read_text().startswith("# values.schema.json")
    properties = yaml.safe_load((CHART / "values.schema.json").read_text())["properties"]
    assert values.keys() | {"global"} == properties.keys()
    assert all(one["description"] for one in properties.values())
