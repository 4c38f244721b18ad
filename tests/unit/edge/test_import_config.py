"""Configurations of SUNK and of slurm-bridge become ours: always good, and a note for each key without a place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.cli import main
from extender.config.load import parse
from extender.config.peers.recognise import imported
from extender.domain.translation.annotation_table import BY_BRIDGE_NAME, BY_SUNK_NAME, Setting
from extender.domain.wellknown import BRIDGE_PREFIX, SUNK_PREFIX

AS_BEFORE = {
    **{key: ["*"] for key in ("partitions", "accounts", "qos", "reservations", "mcsLabels")},
    "underAccounting": "warn",
}
"""What authors of Pods may do under the peers, too."""

FLAGS = (
    "--health-probe-bind-address=:8081 --metrics-bind-address=:8080 --hooks-api-bind-address :8000 "
    "--zap-log-level=info --components=scheduler --slurm-auth-token=hush --slurm-api-base=slurm-controller:6817 "
    "--slurm-kill-wait=45s --watch-namespace=ml,web --scheduler-name=tenant-slurm --leader-elect"
)
SUNK_VALUES = """
clusterName: c
compute: {nodes: {}}
controller: {image: {}}
slurmConfig: {DefMemPerCPU: 100, KillWait: 40}
scheduler:
  enabled: true
  name: tenant-slurm
  resources: {requests: {cpu: 100m}}
  scope: {type: namespace, namespaces: [ml]}
  config:
    slurm: {poolSize: 50, usePersistentConnection: true, protocolVersion: "24_11"}
    scheduler: {gpuTypes: {NVIDIA_L4: l4}, pollInterval: 10s, terminationOffset: 5s}
"""
BRIDGE_FILE = """
schedulerName: slurm-bridge-scheduler
slurmRestApi: http://slurm-restapi.slurm:6820
managedNamespaces: [slurm-bridge]
mcsLabel: kubernetes
partition: slurm-bridge
"""
BRIDGE_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": BRIDGE_FILE, "other": "{"}}
BRIDGE_VALUES = """
schedulerConfig: {schedulerName: slurm-bridge-scheduler, mcsLabel: kubernetes, partition: p, clientQPS: 20}
sharedConfig:
  slurmRestApi: http://slurm-restapi.slurm:6820
  deviceProfiles: [{name: gpu}]
  slurmJwtSecret: {name: slurm-bridge-token, key: SLURM_JWT}
admission: {enabled: true, managedNamespaceSelector: {matchLabels: {a: b}}}
controllers: {podWorkers: 4}
scheduler: {leaderElect: true}
"""


def call(text: str) -> Result:
    return CliRunner().invoke(main, ["import-config", "-"], input=text)


def taken(text: str) -> dict[str, Any]:
    result = call(text)
    assert result.exit_code == 0, result.output
    parse(result.stdout, "imported")
    document: dict[str, Any] = yaml.safe_load(result.stdout)
    return document


def test_the_flags_of_sunk_become_a_configuration() -> None:
    found = taken(FLAGS)
    assert found["observability"] == {"healthBind": ":8081", "metricsBind": ":8082", "logLevel": "info"}
    assert found["http"] == {"bind": ":8080"}
    assert found["hooks"] == {"keyFile": "/etc/slurm-extender/secret/hooks-key", "bind": ":8000"}
    assert found["slurm"]["addresses"] == ["http://slurm-controller:6820"]
    assert found["slurm"]["killWait"] == "45s"
    assert found["scope"] == {"namespaces": ["ml", "web"]}
    assert found["scheduler"] == {"name": "tenant-slurm"}
    assert found["jobs"] == {
        "defaults": {"userId": "0", "groupId": "0"},
        "allow": ["user-id", "group-id", "priority"],
        **AS_BEFORE,
    }


def test_a_token_on_the_command_line_is_not_copied() -> None:
    result = call(FLAGS)
    assert "hush" not in result.output
    assert yaml.safe_load(result.stdout)["slurm"]["tokenFile"] == "/etc/slurm-extender/secret/token"
    assert "--slurm-auth-token: a token belongs in a Secret" in result.stderr


def test_what_has_no_counterpart_is_named_with_the_reason() -> None:
    assert "--leader-elect: no known flag of SUNK's scheduler" in call(FLAGS).stderr
    said = call(SUNK_VALUES).stderr
    for key in (
        *("scheduler.resources:", "scheduler.config.slurm.usePersistentConnection:", "compute:", "controller:"),
        *("scheduler.config.slurm.protocolVersion:", "scheduler.config.scheduler.pollInterval:", "clusterName:"),
        *("scheduler.config.scheduler.terminationOffset:", "slurmConfig (DefMemPerCPU):"),
    ):
        assert f"\n{key}" in f"\n{said}", key
    said = call(BRIDGE_VALUES).stderr
    for key in (
        *("schedulerConfig.clientQPS:", "sharedConfig.deviceProfiles:", "admission.managedNamespaceSelector:"),
        *("admission:", "controllers:", "scheduler:", "sharedConfig.slurmJwtSecret:"),
    ):
        assert f"\n{key}" in f"\n{said}", key


def test_the_flags_are_found_in_sunk_s_deployment() -> None:
    containers = [{"image": "x", "command": ["/manager"], "args": FLAGS.split()}]
    deployment = {"kind": "Deployment", "spec": {"template": {"spec": {"containers": containers}}}}
    assert taken(yaml.safe_dump(deployment)) == taken(FLAGS)
    assert taken(yaml.safe_dump({"kind": "List", "items": [deployment]})) == taken(FLAGS)


def test_helm_values_of_sunk_become_a_configuration() -> None:
    found = taken(SUNK_VALUES)
    assert found["scheduler"] == {"name": "tenant-slurm"}
    assert found["scope"] == {"namespaces": ["ml"]}
    assert found["jobs"]["gpuTypes"] == {"NVIDIA_L4": "l4"}
    assert found["slurm"]["connections"] == 8
    assert found["slurm"]["killWait"] == "40s"


@pytest.mark.parametrize("text", [BRIDGE_FILE, yaml.safe_dump(BRIDGE_MAP)], ids=["file", "ConfigMap"])
def test_the_configuration_of_slurm_bridge_becomes_the_extenders(text: str) -> None:
    found = taken(text)
    assert found["scheduler"] == {"name": "slurm-bridge-scheduler"}
    assert found["slurm"]["addresses"] == ["http://slurm-restapi.slurm:6820"]
    assert found["jobs"]["defaults"] == {
        **{"mcsLabel": "kubernetes", "partition": "slurm-bridge", "exclusive": "none"},
    }
    assert "managedNamespaces: Pods there get the scheduler's name" in call(text).stderr


def test_helm_values_of_slurm_bridge_become_a_configuration() -> None:
    found = taken(BRIDGE_VALUES)
    assert found["slurm"] == {
        "tokenFile": "/etc/slurm-extender/secret/token",
        "addresses": ["http://slurm-restapi.slurm:6820"],
    }


def test_jobs_that_sunk_starts_as_a_whole_are_gangs_and_what_that_needs_is_said() -> None:
    assert taken(SUNK_VALUES)["gangs"] == {"jobs": "indexed"}
    said = call(SUNK_VALUES).stderr
    assert "SUNK 7.6 and later starts the Pods of a Job together" in said
    assert "a gang gets nodes with a working fence alone" in said


def test_pod_groups_of_slurm_bridge_stay_gangs_and_jobs_stay_single_pods() -> None:
    assert taken(BRIDGE_VALUES)["gangs"] == {"podGroups": ["scheduling.k8s.io", "scheduling.x-k8s.io"]}
    said = call(BRIDGE_VALUES).stderr
    assert "apply components/pod-groups" in said
    assert "a gang gets nodes with a working fence alone" in said


def test_a_value_that_cannot_be_used_is_left_out_and_said() -> None:
    result = call("--slurm-kill-wait=soon --scheduler-name=x")
    assert "killWait" not in yaml.safe_load(result.stdout)["slurm"]
    assert (
        '--slurm-kill-wait: cannot be used as slurm.killWait: --slurm-kill-wait: slurm.killWait: "soon" is no duration'
        in (result.stderr)
    )


def test_the_first_of_two_files_decides() -> None:
    plan = imported([("a", "--scheduler-name=one"), ("b", "--scheduler-name=two")])
    assert plan.document["scheduler"]["name"] == "one"
    assert "--scheduler-name: scheduler.name is 'one' already, by what was read before" in plan.notes


@pytest.mark.parametrize("text", ["", "kind: Service", "5", "{", "- 5", "--foo", "a: [b"])
def test_what_is_of_no_peer_is_refused_with_what_is_understood(text: str) -> None:
    result = call(text)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert not result.stdout


def notes(text: str) -> str:
    result = call(text)
    assert result.exit_code == 0, result.output
    return result.stderr


def test_namespaces_with_commas_between_are_the_scope_as_in_sunk() -> None:
    found = taken("scheduler: {enabled: true, name: s, scope: {type: namespace, namespaces: 'ml, web'}}")
    assert found["scope"] == {"namespaces": ["ml", "web"]}


def test_namespaces_that_sunk_ignores_are_said() -> None:
    said = notes("scheduler: {name: s, scope: {type: cluster, namespaces: [ml]}}")
    assert "scheduler.scope.namespaces: scheduler.scope.type is cluster: SUNK serves every namespace" in said


def test_sunk_s_scheduler_is_known_by_its_switch_and_its_name_alone() -> None:
    assert taken("scheduler: {enabled: true, name: tenant-slurm}")["scheduler"] == {"name": "tenant-slurm"}


@pytest.mark.parametrize("name", ["null", '""', "~"])
def test_a_name_that_is_not_given_is_requested(name: str) -> None:
    text = f"scheduler: {{enabled: true, name: {name}}}"
    assert "scheduler" not in taken(text)
    assert "scheduler.name: not set: SUNK's is NAMESPACE-RELEASE" in notes(text)


def test_kill_wait_is_found_in_groups_of_slurm_conf() -> None:
    text = "scheduler: {enabled: true}\nslurmConfig: {slurmCtld: {KillWait: 50, SlurmctldTimeout: 300}}"
    assert taken(text)["slurm"]["killWait"] == "50s"
    assert "slurmConfig (slurmCtld.SlurmctldTimeout): of slurm.conf" in notes(text)


def test_another_chart_of_slurm_is_not_taken_for_sunk_s() -> None:
    result = call("compute: {nodesets: []}\ncontroller: {enabled: true}\nlogin: {}\nrestapi: {}")
    assert result.exit_code == 1
    assert "it has no known key" in result.stderr


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("scheduler: {scope: everywhere, config: {}}", "scheduler.scope: 'everywhere' is no map"),
        ("scheduler: {scope: {}, config: [1]}", "scheduler.config: [1] is no map"),
        ("scheduler: {config: {slurm: 5}}", "scheduler.config.slurm: 5 is no map"),
        ("scheduler: {enabled: true}\nslurmConfig: KillWait=60", "slurmConfig: 'KillWait=60' is no map"),
        ("compute: {}\ncontroller: {}\nscheduler: yes", "scheduler: True is no map"),
        ("schedulerConfig: [a]\nsharedConfig: x", "schedulerConfig: ['a'] is no map"),
        ("schedulerConfig: [a]\nsharedConfig: x", "sharedConfig: 'x' is no map"),
        ("sharedConfig: {}\nadmission: off", "admission: False is no map"),
    ],
)
def test_a_group_that_is_none_is_said(text: str, key: str) -> None:
    assert f"\n{key}" in f"\n{notes(text)}"


@pytest.mark.parametrize(
    ("given", "secret", "key"),
    [
        ("slurm-bridge-jwt-token", "slurm-bridge-jwt-token", "auth-token"),
        ("{name: mine}", "mine", "auth-token"),
        ("{key: other, name: null}", "slurm-bridge-token", "other"),
    ],
)
def test_the_token_of_slurm_bridge_is_known_by_each_form_of_its_secret(given: str, secret: str, key: str) -> None:
    text = f"sharedConfig: {{slurmJwtSecret: {given}}}"
    assert taken(text)["slurm"]["tokenFile"] == "/etc/slurm-extender/secret/token"
    assert f"copy {key} of the Secret {secret} to the key token of the Secret slurm-extender" in notes(text)


def test_a_key_that_stands_twice_is_a_fault_with_both_lines() -> None:
    result = call("scheduler:\n  name: one\n  scope: {}\n  name: two\n")
    assert result.exit_code == 1
    assert "line 4: the key 'name' stands twice, first in line 2" in result.stderr


def test_anchors_and_merged_keys_are_read_as_helm_reads_them() -> None:
    text = """
common: &common {type: namespace, namespaces: [ml]}
scheduler:
  name: &name tenant
  scope: {<<: [{namespaces: [web]}, *common], type: namespace}
  labels: {app: *name}
"""
    found = taken(text)
    assert (found["scheduler"], found["scope"]) == ({"name": "tenant"}, {"namespaces": ["web"]})


def test_each_thing_that_is_not_known_is_said_beside_what_is() -> None:
    config_map = {**BRIDGE_MAP, "metadata": {"name": "bridge"}}
    items = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}}, config_map, ["--foo"], 5]
    listed = notes(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    for line in (
        *("-, Secret t: it has no known key", "-, ConfigMap bridge, other: it is not valid YAML: "),
        "-: it has no known key",
    ):
        assert f"\n{line.replace('-', '<stdin>', 1)}" in f"\n{listed}", line
    streamed = notes(f"{SUNK_VALUES}\n---\nkind: Service\n---\n5\n")
    assert "<stdin>, document 2: it has no known key" in streamed
    assert "<stdin>, document 3: it has no known key" in streamed


@pytest.mark.parametrize(
    "text",
    [
        "--scheduler-name='x",
        "a: 2026-99-99",
        "a: &a [*a]",
        "a: &a {b: *a}",
        "[" * 5000,
        "scheduler: {name: 0b_}",
        "kind: Deployment\nspec: [1]",
        "kind: Deployment\nspec: {template: x}",
        "kind: Deployment\nspec: {template: {spec: {containers: 5}}}",
        "kind: Pod\nspec: {containers: [{command: 5, args: {a: b}}]}",
        "kind: List\nitems: 5",
        "kind: ConfigMap\ndata: 5",
        "? [a]\n: b",
        "\tscheduler: {}",
        "\x07",
        "'\\ud800'",
        "kind: ConfigMap\ndata: {config.yaml: 5, other: '- &a [*a]'}",
        f"a: {{{', '.join(f'k{i}: v' for i in range(1000))}}}",
    ],
    ids=lambda text: text[:30],
)
def test_garbage_ends_in_a_sentence(text: str) -> None:
    result = call(text)
    assert result.exit_code == 1, result.exception
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("Error: ")


def test_a_pod_without_requests_gets_what_the_peer_gives_it() -> None:
    assert taken("schedulerName: x\nmcsLabel: a")["jobs"]["missingRequests"] == "whole-node"
    assert "missingRequests" not in taken("--scheduler-name=slurm --slurm-kill-wait=30s")["jobs"]


def test_a_date_is_text_as_anything_else() -> None:
    assert (
        taken("schedulerName: x\nmcsLabel: a\npartition: 2026-01-01")["jobs"]["defaults"]["partition"] == "2026-01-01"
    )


PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-5, 20), st.text(max_size=5), st.just({}), st.just(["x"]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=PLAIN, types=PLAIN, pool=PLAIN, namespaces=PLAIN, wait=PLAIN, url=PLAIN, partition=PLAIN)
def test_whatever_is_imported_is_a_good_configuration(**values: Any) -> None:
    sunk = {
        "scheduler": {
            "name": values["name"],
            "scope": {"type": "namespace", "namespaces": values["namespaces"]},
            "config": {"slurm": {"poolSize": values["pool"]}, "scheduler": {"gpuTypes": values["types"]}},
        },
        "slurmConfig": {"KillWait": values["wait"]},
    }
    bridge = {"slurmRestApi": values["url"], "partition": values["partition"], "schedulerName": values["name"]}
    for document in (sunk, bridge):
        plan = imported([("f", yaml.safe_dump(document))])
        parse(yaml.safe_dump(plan.document), "imported")


EVERY = {
    "account": "a",
    "partition": "p",
    "qos": "q",
    "reservation": "r",
    "comment": "c",
    "constraints": "x&y",
    "prefer": "x",
    "excluded-nodes": "n1,n2",
    "required-nodes": "n3",
    "exclusive": "user",
    "priority": "7",
    "user-id": "1001",
    "group-id": "1002",
    "current-working-dir": "/tmp",
    "timeout": "5",
    "timelimit": "5",
    "cpu-per-task": "3",
    "mem-per-node": "2Gi",
    "gres": "gpu:1",
    "job-name": "j",
    "licenses": "l:1",
    "wckey": "w",
    "min-nodes": "1",
    "max-nodes": "1",
}
"""A value of each annotation of theirs."""


@pytest.mark.parametrize(
    ("text", "prefix", "names", "scheduler"),
    [
        (FLAGS, SUNK_PREFIX, BY_SUNK_NAME, "tenant-slurm"),
        (BRIDGE_FILE, BRIDGE_PREFIX, BY_BRIDGE_NAME, "slurm-bridge-scheduler"),
    ],
    ids=["SUNK", "slurm-bridge"],
)
def test_every_annotation_is_obeyed_under_the_imported_configuration(
    tmp_path: Path, text: str, prefix: str, names: Mapping[str, Setting[Any]], scheduler: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(call(text).stdout)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ml", "annotations": {f"{prefix}{name}": EVERY[name] for name in names}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        },
    }
    result = CliRunner().invoke(main, ["translate", "--config", str(config), "-"], input=yaml.safe_dump(pod))
    assert result.exit_code == 0, result.output
    said = [line for line in result.stdout.splitlines() if line.startswith("#")]
    assert said[:2] == ["# Pod p, namespace ml", "# 1 Pod, 1 Slurm job"]
    assert [line.partition("=")[0] for line in said[2:]] == ["# sbatch --job-name"], said
    job = yaml.safe_load(result.stdout)["job"]
    assert job["run_as"] == {"uid": 1001, "gid": 1002}
    assert (job["account"], job["partition"], job["priority"], job["time_limit_minutes"]) == ("a", "p", 7, 5)
    assert job["exclusive"] == "user"


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "migrate.md").read_text(encoding="utf-8")


def test_the_page_names_every_annotation_of_both() -> None:
    for name in BY_SUNK_NAME.keys() | BY_BRIDGE_NAME.keys():
        assert f"`{name}`" in PAGE, name
