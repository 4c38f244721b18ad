"""What import-config prints to install with passes check-config, the chart's schema and the shipped manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from extender.cli import main
from extender.config.document import ExtenderConfiguration
from extender.config.load import parse
from extender.config.peers.install import scheduler_configuration
from extender.config.serving import LOOPBACK
from extender.domain.wellknown import CONFIG_API_VERSION, CONFIG_KIND
from lab.errors import LabError
from lab.helm import template
from lab.kube import Kubernetes
from lab.manifests import kustomize
from tests.builders.kustomize import COMPONENTS, CORE, documents
from tests.unit.edge.test_import_config import BRIDGE_VALUES, FLAGS, SUNK_VALUES

PEERS_NAMES = {
    "flags of SUNK": "tenant-slurm",
    "values of SUNK": "tenant-slurm",
    "values of slurm-bridge": "slurm-bridge-scheduler",
}
COMPARING = (
    CORE / "writes-policy.yaml",
    COMPONENTS / "gate-policy" / "policy.yaml",
    COMPONENTS / "gate-policy" / "tolerations.yaml",
    COMPONENTS / "grace-policy" / "policy.yaml",
)
"""The files of the base that compare the name of the scheduler."""

PEERS = {"flags of SUNK": FLAGS, "values of SUNK": SUNK_VALUES, "values of slurm-bridge": BRIDGE_VALUES}


def printed(form: str, text: str) -> Result:
    result = CliRunner().invoke(main, ["import-config", "--for", form, "-"], input=text)
    assert result.exit_code == 0, result.output
    return result


def checked(config: dict[str, Any]) -> ExtenderConfiguration:
    return parse(yaml.safe_dump(config), "imported")


@pytest.mark.parametrize("peer", PEERS)
def test_values_for_helm_pass_the_check_of_the_configuration_and_listen_where_the_chart_expects(peer: str) -> None:
    values = yaml.safe_load(printed("helm", PEERS[peer]).stdout)
    [own] = documents(CORE.parent / "chart" / "values.yaml")
    schema = json.loads((CORE.parent / "chart" / "values.schema.json").read_text())["properties"]["config"]
    assert values.keys() <= {"config", "podGroups"}
    assert values["config"].keys() <= schema["properties"].keys()
    found = checked({"apiVersion": CONFIG_API_VERSION, "kind": CONFIG_KIND, **values["config"]})
    for group, key in (("http", "bind"), ("hooks", "bind"), ("observability", "healthBind"), ("hooks", "keyFile")):
        assert values["config"][group][key] == own["config"][group][key]
    assert found.slurm.token_file == own["config"]["slurm"]["tokenFile"]
    assert LOOPBACK not in {one.bind.host for one in found.listeners if "debug" not in one.key}


@pytest.mark.parametrize("peer", PEERS)
def test_a_kustomization_holds_a_configuration_and_a_profile_of_one_scheduler_name(peer: str) -> None:
    whole = yaml.safe_load(printed("kustomize", PEERS[peer]).stdout)
    data = {one["name"]: one["literals"][0].partition("=") for one in whole["configMapGenerator"]}
    file, _, text = data["extender-config"]
    found = parse(text, file)
    assert (file, found.scheduler.name) == ("config.yaml", PEERS_NAMES[peer])
    file, _, text = data["scheduler-config"]
    assert (file, yaml.safe_load(text)) == ("kube-scheduler.yaml", scheduler_configuration(found.scheduler.name))
    for patch in whole["patches"]:
        [change] = yaml.safe_load(patch["patch"])
        [policy] = [
            one
            for file in COMPARING
            for one in documents(file)
            if one["metadata"]["name"] == patch["target"]["name"] and one["kind"] == patch["target"]["kind"]
        ]
        value: Any = policy
        for part in change["path"].strip("/").split("/"):
            value = value[int(part)] if isinstance(value, list) else value[part]
        assert change["value"] == value.replace("'slurm'", f"'{found.scheduler.name}'") != value


def test_every_comparison_with_the_name_of_the_scheduler_in_the_base_is_patched() -> None:
    text = "".join(file.read_text() for file in COMPARING)
    assert text.count("schedulerName == 'slurm'") == len(yaml.safe_load(printed("kustomize", FLAGS).stdout)["patches"])


def test_the_name_of_the_manifests_needs_no_patch() -> None:
    whole = yaml.safe_load(printed("kustomize", "--scheduler-name=slurm --slurm-kill-wait=30s").stdout)
    assert "patches" not in whole
    assert [one["name"] for one in whole["configMapGenerator"]] == ["extender-config"]


def test_the_profile_is_that_of_the_shipped_manifests() -> None:
    assert documents(COMPONENTS / "tls" / "kube-scheduler.yaml") == [scheduler_configuration("slurm")]


@pytest.mark.parametrize("form", ["helm", "kustomize"])
def test_the_commands_that_install_it_copy_the_token_of_slurm_bridge(form: str) -> None:
    said = printed(form, 'sharedConfig: {slurmJwtSecret: {name: "it\'s"}}').stderr
    assert """get secret 'it'"'"'s' -o go-template='{{index .data "auth-token" | base64decode}}'""" in said
    assert ("hooks-key" in said) == (form == "kustomize")
    assert "scontrol token" in printed(form, FLAGS).stderr


# By helm and kubectl.


@pytest.mark.lab
@pytest.mark.parametrize("peer", PEERS)
def test_the_chart_and_kustomize_take_what_is_printed(peer: str, tmp_path: Path) -> None:
    values = yaml.safe_load(printed("helm", PEERS[peer]).stdout)
    found = template({**values, "image": {"repository": "example.org/slurm-extender"}})
    assert f"== '{PEERS_NAMES[peer]}'" in yaml.safe_dump_all(found)
    rendered = json.dumps(in_overlay(printed("kustomize", PEERS[peer]).stdout))
    assert "schedulerName == 'slurm'" not in rendered
    assert f"schedulerName: {PEERS_NAMES[peer]}" in rendered


@pytest.mark.lab
@pytest.mark.parametrize("peer", PEERS)
def test_with_the_component_of_an_older_kubernetes_the_kustomization_holds_no_gate(peer: str) -> None:
    whole = yaml.safe_load(printed("kustomize", PEERS[peer]).stdout)
    whole["components"] = [*whole.get("components", ()), "../../components/kubernetes-1.34"]
    kinds = {one["kind"] for one in in_overlay(yaml.safe_dump(whole))}
    assert "MutatingAdmissionPolicy" not in kinds
    assert "ValidatingAdmissionPolicy" in kinds


def in_overlay(text: str) -> list[dict[str, Any]]:
    """Render a kustomization where the printed paths lead to the shipped manifests."""
    folder = CORE.parent / "overlays" / "imported-by-a-test"
    folder.mkdir()
    try:
        (folder / "kustomization.yaml").write_text(text)
        return kustomize(folder)
    finally:
        (folder / "kustomization.yaml").unlink()
        folder.rmdir()


@pytest.mark.lab
@pytest.mark.parametrize("peer", PEERS)
def test_an_api_server_takes_every_object_of_it(peer: str, tmp_path: Path) -> None:
    with Kubernetes(controllers=False, workdir=tmp_path) as kube:
        text = yaml.safe_dump_all(in_overlay(printed("kustomize", PEERS[peer]).stdout))
        try:
            kube.kubectl("apply", "-f", "-", stdin=text)
        except LabError as error:
            pytest.fail(str(error))
        assert "slurm-extender" in kube.kubectl("get", "deployments", "-n", "slurm-extender", "-o", "name")
