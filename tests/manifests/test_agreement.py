"""What one file says, the others and the program say too: names, ports, routes, paths, rights."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from extender.certificates.command import SCHEDULER
from extender.certificates.renewal import RenewalOptions
from extender.cli.certificates import certificates
from extender.cli.generate import generate
from extender.config.load import from_environment, load
from extender.config.values import read_duration
from extender.http.scheduling import PREFIX, router
from extender.observability.metrics.registry import Metrics
from extender.server.active_role import ANSWERED_WITHIN, FLUSH_WITHIN
from extender.server.election import RELEASE_WITHIN_S
from tests.builders.kustomize import COMPONENTS, CORE, ROOT, TLS, documents, of_kind, pod_spec, render
from tests.builders.services import FakeServices, StillClock

NAMESPACE = "slurm-extender"
POD_SAYS = {
    "SLURM_EXTENDER__LEADER_ELECTION__IDENTITY": "metadata.name",
    "SLURM_EXTENDER__LEADER_ELECTION__NAMESPACE": "metadata.namespace",
    "SLURM_EXTENDER__LEADER_ELECTION__ADVERTISE": "status.podIP",
}
IN_A_POD = (
    dict.fromkeys(POD_SAYS, "10.0.0.1")
    | {"SLURM_EXTENDER__LEADER_ELECTION__ENABLED": "true"}
    | {"SLURM_EXTENDER__LEADER_ELECTION__NAMESPACE": "slurm-extender"}
)
CONFIGURATION = load(CORE / "config.yaml", from_environment(IN_A_POD))
[PROFILE] = documents(CORE / "kube-scheduler.yaml")
FILTER, BIND = PROFILE["extenders"]


def container(deployment: str) -> dict[str, object]:
    [one] = pod_spec(deployment)["containers"]
    found: dict[str, object] = one
    return found


def ports(deployment: str) -> dict[str, int]:
    found = container(deployment)["ports"]
    assert isinstance(found, list)
    return {port["name"]: port["containerPort"] for port in found}


def test_every_file_of_the_folder_is_used() -> None:
    [kustomization] = documents(CORE / "kustomization.yaml")
    used = {
        *kustomization["resources"],
        *(name for one in kustomization["configMapGenerator"] for name in one["files"]),
    }
    assert {path.name for path in CORE.iterdir()} == used | {"kustomization.yaml"}


def test_everything_lives_in_one_namespace() -> None:
    elsewhere = {
        (one["kind"], one["metadata"]["namespace"])
        for one in render()
        if one["metadata"].get("namespace", NAMESPACE) != NAMESPACE
    }
    assert elsewhere == {
        ("RoleBinding", "kube-system"),
        ("Role", "kube-node-lease"),
        ("RoleBinding", "kube-node-lease"),
    }


def test_no_two_objects_are_the_same() -> None:
    named = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in render()]
    assert len(set(named)) == len(named)


# The configuration, the Deployment, the Services, the policy.


def test_the_extender_listens_where_its_ports_are() -> None:
    assert CONFIGURATION.hooks.bind is not None
    assert ports("slurm-extender") == {
        "scheduler": CONFIGURATION.http.bind.port,
        "hooks": CONFIGURATION.hooks.bind.port,
        "health": CONFIGURATION.observability.health_bind.port,
        "metrics": CONFIGURATION.observability.metrics_bind.port,
    }


def test_what_other_pods_reach_listens_on_every_interface_and_debugging_does_not() -> None:
    shown = CONFIGURATION.observability
    assert CONFIGURATION.hooks.bind is not None
    assert {
        CONFIGURATION.http.bind.host,
        CONFIGURATION.hooks.bind.host,
        shown.health_bind.host,
        shown.metrics_bind.host,
    } == {""}
    assert shown.debug_bind is not None
    assert shown.debug_bind.host == "127.0.0.1"


def test_services_lead_to_ports_of_the_pods_that_they_select() -> None:
    deployments = of_kind("Deployment")
    for name, service in of_kind("Service").items():
        [target] = [
            deployment
            for deployment, one in deployments.items()
            if service["spec"]["selector"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
        ]
        for port in service["spec"]["ports"]:
            assert ports(target)[port["targetPort"]] == port["port"], name


def test_a_pod_that_is_ended_has_the_time_that_its_end_takes() -> None:
    spec = pod_spec("slurm-extender")
    lifecycle = spec["containers"][0]["lifecycle"]
    needed = (
        lifecycle["preStop"]["sleep"]["seconds"] + CONFIGURATION.http.shutdown_timeout + ANSWERED_WITHIN + FLUSH_WITHIN
    )
    # The Lease is read before it is given up where the last renewal was not answered (`Election.release`).
    needed += CONFIGURATION.leader_election.renew_deadline / 2 + RELEASE_WITHIN_S
    assert needed < spec["terminationGracePeriodSeconds"]


def test_deployments_select_their_own_pods_and_no_others() -> None:
    deployments = of_kind("Deployment")
    for name, deployment in deployments.items():
        wanted = deployment["spec"]["selector"]["matchLabels"].items()
        chosen = [
            other
            for other, one in deployments.items()
            if wanted <= one["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert chosen == [name]


def test_only_the_scheduler_and_other_replicas_reach_the_scheduling_port() -> None:
    policy = of_kind("NetworkPolicy")["slurm-extender"]["spec"]
    labels = of_kind("Deployment")["slurm-extender"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    allowed = {port["port"]: rule.get("from") for rule in policy["ingress"] for port in rule["ports"]}
    assert set(allowed) == set(ports("slurm-extender"))
    assert allowed["scheduler"] == [
        {"podSelector": {"matchLabels": {"app.kubernetes.io/name": name}}}
        for name in ("slurm-scheduler", "slurm-extender")
    ]


def test_the_program_is_called_with_the_file_that_is_mounted() -> None:
    spec = pod_spec("slurm-extender")
    mounts = {one["name"]: one["mountPath"] for one in spec["containers"][0]["volumeMounts"]}
    assert spec["containers"][0]["args"] == ["serve", f"--config={mounts['config']}/config.yaml"]
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert "config.yaml" in of_kind("ConfigMap")[volumes["config"]["configMap"]["name"]]["data"]


def test_the_files_that_the_configuration_names_are_keys_of_the_secret() -> None:
    spec = pod_spec("slurm-extender")
    [mount] = [one["mountPath"] for one in spec["containers"][0]["volumeMounts"] if one["name"] == "secret"]
    [volume] = [one["secret"]["secretName"] for one in spec["volumes"] if one["name"] == "secret"]
    [secret] = documents(ROOT / "manifests" / "secret.example.yaml")
    assert (secret["metadata"]["name"], secret["metadata"]["namespace"]) == (volume, NAMESPACE)
    named = {CONFIGURATION.slurm.token_file, CONFIGURATION.hooks.key_file}
    assert named == {f"{mount}/{key}" for key in secret["stringData"]}


def test_probes_call_routes_on_the_health_port() -> None:
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        probed = container("slurm-extender")[probe]
        assert isinstance(probed, dict)
        assert (probed["httpGet"]["path"], probed["httpGet"]["port"]) == (path, "health")


def test_the_pod_is_given_longer_than_the_program_takes_to_stop() -> None:
    assert pod_spec("slurm-extender")["terminationGracePeriodSeconds"] > CONFIGURATION.http.shutdown_timeout


def test_of_several_extenders_one_writes() -> None:
    spec = of_kind("Deployment")["slurm-extender"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (2, "RollingUpdate")
    assert CONFIGURATION.leader_election.enabled
    given = pod_spec("slurm-extender")["containers"][0]["env"]
    said = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in given if "valueFrom" in one}
    assert said == POD_SAYS
    assert {one["name"]: one["value"] for one in given if "value" in one} == {
        "SLURM_EXTENDER__LEADER_ELECTION__ENABLED": "true"
    }


def test_the_extender_may_hold_the_lease_that_it_elects_by() -> None:
    election = CONFIGURATION.leader_election
    role = of_kind("Role")["slurm-extender"]
    assert role["metadata"]["namespace"] == election.namespace == NAMESPACE
    assert [(rule.get("resourceNames"), rule["verbs"]) for rule in role["rules"]] == [
        (None, ["create"]),
        ([election.lease_name], ["get", "update"]),
        ([f"{election.lease_name}-checkpoints"], ["get", "patch"]),
    ]


# kube-scheduler's profile.


def test_the_profile_s_pods_are_the_extender_s() -> None:
    assert [profile["schedulerName"] for profile in PROFILE["profiles"]] == [CONFIGURATION.scheduler.name]


def test_the_profile_calls_routes_that_exist() -> None:
    clock = StillClock()
    served = {getattr(route, "path", "") for route in router(FakeServices(), Metrics(clock), clock, 1).routes}
    prefix = urlsplit(FILTER["urlPrefix"])
    assert prefix.path == PREFIX
    assert FILTER["urlPrefix"] == BIND["urlPrefix"]
    assert {f"{prefix.path}/{FILTER['filterVerb']}", f"{prefix.path}/{BIND['bindVerb']}"} == served
    assert {"bindVerb", "prioritizeVerb", "preemptVerb", "managedResources"}.isdisjoint(FILTER)
    assert {"filterVerb", "prioritizeVerb", "preemptVerb", "managedResources"}.isdisjoint(BIND)


def test_no_held_call_outlasts_kube_scheduler() -> None:
    assert read_duration(BIND["httpTimeout"]) == CONFIGURATION.http.bind_timeout
    assert read_duration(FILTER["httpTimeout"]) == 5.0


def test_the_profile_calls_the_service() -> None:
    prefix = urlsplit(FILTER["urlPrefix"])
    service = of_kind("Service")["slurm-extender"]
    assert prefix.hostname == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert prefix.port in {port["port"] for port in service["spec"]["ports"] if port["targetPort"] == "scheduler"}
    assert prefix.scheme == "http"
    assert CONFIGURATION.http.tls is None


def test_an_extender_that_is_away_stops_pods_instead_of_letting_them_anywhere() -> None:
    for entry in (FILTER, BIND):
        assert entry["ignorable"] is False
        assert entry["nodeCacheCapable"] is True
    assert PROFILE["percentageOfNodesToScore"] == 100


def test_no_more_plugins_are_off_than_slurm_replaces() -> None:
    [profile] = PROFILE["profiles"]
    off = {plugin["name"] for plugin in profile["plugins"]["multiPoint"]["disabled"]}
    assert off == {"NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality", "DefaultPreemption"}
    assert set(profile) == {"schedulerName", "plugins"}


def test_rejected_pods_keep_their_back_off() -> None:
    command = container("slurm-scheduler")["command"]
    assert isinstance(command, list)
    assert "--feature-gates=SchedulerPopFromBackoffQ=false" in command
    assert "--config=/etc/slurm-scheduler/config/kube-scheduler.yaml" in command


def test_the_scheduler_may_hold_the_lease_that_it_elects_by() -> None:
    election = PROFILE["leaderElection"]
    role = of_kind("Role")[election["resourceName"]]
    assert role["metadata"]["namespace"] == election["resourceNamespace"] == NAMESPACE
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, [election["resourceName"]]]


# TLS between the two.


def test_the_tls_profile_differs_in_tls_alone() -> None:
    [profile] = documents(TLS / "kube-scheduler.yaml")
    for entry in profile["extenders"]:
        files = entry.pop("tlsConfig")
        assert entry.pop("enableHTTPS") is True
        assert entry["urlPrefix"] == FILTER["urlPrefix"].replace("http://", "https://")
        entry["urlPrefix"] = FILTER["urlPrefix"]
    assert profile == PROFILE
    assert set(files) == {"caFile", "certFile", "keyFile"}
    [patch] = documents(TLS / "scheduler.yaml")
    [mount] = patch["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {str(Path(file).parent) for file in files.values()} == {mount["mountPath"]}


def test_the_tls_patch_makes_the_extender_require_certificates() -> None:
    [patch] = documents(TLS / "extender.yaml")
    [one] = patch["spec"]["template"]["spec"]["containers"]
    environ = IN_A_POD | {entry["name"]: entry["value"] for entry in one["env"]}
    configuration = load(CORE / "config.yaml", from_environment(environ))
    tls = configuration.http.tls
    assert tls is not None
    assert configuration.leader_election.tls_server_name == urlsplit(FILTER["urlPrefix"]).hostname
    named = {tls.certificate_file, tls.key_file, tls.client_ca_file}
    assert named == {f"{one['volumeMounts'][0]['mountPath']}/{key}" for key in ("tls.crt", "tls.key", "ca.crt")}


def mounted(component: str, patch: str) -> str:
    """The Secret that a patch mounts."""
    [document] = documents(COMPONENTS / component / patch)
    [volume] = document["spec"]["template"]["spec"]["volumes"]
    name: str = volume["secret"]["secretName"]
    return name


ORDER = RenewalOptions(NAMESPACE, timedelta(days=1))
BY_CERT_MANAGER = {
    one["spec"]["secretName"]: one["spec"]
    for file in ("cert-manager/certificates.yaml", "cert-manager-webhook/certificate.yaml")
    for one in documents(COMPONENTS / file)
    if one["kind"] == "Certificate"
}


@pytest.mark.parametrize(
    ("component", "patch", "usages"),
    [
        ("tls", "extender.yaml", ["server auth", "client auth"]),
        ("tls", "scheduler.yaml", ["client auth"]),
        ("gate-webhook", "extender.yaml", ["server auth"]),
    ],
)
def test_certificates_go_to_the_secrets_that_are_mounted(component: str, patch: str, usages: list[str]) -> None:
    secret = mounted(component, patch)
    assert BY_CERT_MANAGER[secret]["usages"] == usages
    subject = ORDER.subjects[secret]
    assert [subject.server, subject.client] == ["server auth" in usages, "client auth" in usages]
    assert set(BY_CERT_MANAGER[secret].get("dnsNames", ())) <= set(subject.names)


def test_certificates_are_for_the_names_that_are_called() -> None:
    called = urlsplit(FILTER["urlPrefix"]).hostname
    [webhook] = documents(COMPONENTS / "gate-webhook" / "webhook.yaml")
    service = webhook["webhooks"][0]["clientConfig"]["service"]
    for secret, name in (
        ("slurm-extender-tls", called),
        ("slurm-extender-webhook-tls", f"{service['name']}.{service['namespace']}.svc"),
    ):
        assert name in ORDER.subjects[secret].names
        assert name in BY_CERT_MANAGER[secret]["dnsNames"]


@pytest.mark.parametrize("secret", sorted(BY_CERT_MANAGER))
def test_an_authority_outlives_the_certificates_of_cert_manager(secret: str) -> None:
    """A self-signed certificate is its own authority: clients that know the last one refuse the renewed one."""
    spec = BY_CERT_MANAGER[secret]
    files = ("cert-manager/certificates.yaml", "cert-manager-webhook/certificate.yaml")
    issuers = {
        one["metadata"]["name"]: one["spec"]
        for file in files
        for one in documents(COMPONENTS / file)
        if one["kind"] == "Issuer"
    }
    issuer = issuers[spec["issuerRef"]["name"]]
    if spec.get("isCA"):
        assert (issuer, spec["duration"]) == ({"selfSigned": {}}, "87600h")
    else:
        assert BY_CERT_MANAGER[issuer["ca"]["secretName"]]["isCA"] is True


@pytest.mark.parametrize("file", ["job.yaml", "cron-job.yaml"])
def test_the_jobs_call_the_command_as_it_is(file: str) -> None:
    [job] = documents(COMPONENTS / "certificates" / file)
    spec = (
        job["spec"]["template"]["spec"]
        if file == "job.yaml"
        else job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    )
    [one] = spec["containers"]
    context = certificates.make_context("certificates", one["args"][2:])
    assert one["args"][:2] == [generate.name, certificates.name]
    assert context.params["namespace"] == NAMESPACE
    assert (context.params["webhook"], SCHEDULER) == ("slurm-extender-gate", "slurm-scheduler")
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert one["securityContext"]["readOnlyRootFilesystem"] is True


# kube-scheduler of each minor.


@pytest.mark.parametrize(
    ("minor", "gates"),
    [
        ("1.32", None),
        ("1.33", "SchedulerPopFromBackoffQ=false"),
        ("1.34", "SchedulerPopFromBackoffQ=false,SchedulerAsyncAPICalls=false"),
        ("1.35", "SchedulerPopFromBackoffQ=false,SchedulerAsyncAPICalls=false"),
        ("1.36", "SchedulerPopFromBackoffQ=false"),
        ("1.37", "SchedulerPopFromBackoffQ=false"),
    ],
)
def test_each_minor_has_its_image_and_its_gates(minor: str, gates: str | None) -> None:
    [component] = documents(COMPONENTS / f"kubernetes-{minor}" / "kustomization.yaml")
    [image] = component["images"]
    assert image["name"] == "registry.k8s.io/kube-scheduler"
    assert image["newTag"].startswith(f"v{minor}.")
    [operation] = yaml.safe_load(component["patches"][0]["patch"])
    at = int(operation["path"].rpartition("/")[2])
    command = container("slurm-scheduler")["command"]
    assert isinstance(command, list)
    assert command[at].startswith("--feature-gates=")
    assert operation.get("value") == (f"--feature-gates={gates}" if gates else None)


@pytest.mark.parametrize("overlay", ["sunk-like", "slurm-bridge-like", "development"])
def test_the_configurations_of_overlays_are_good(overlay: str) -> None:
    load(ROOT / "manifests" / "overlays" / overlay / "config.yaml", from_environment(IN_A_POD))


@pytest.mark.parametrize(
    "folder", sorted((ROOT / "manifests").glob("*/*/kustomization.yaml")), ids=lambda f: f.parent.name
)
def test_every_file_beside_a_kustomization_is_used_by_it(folder: Path) -> None:
    [kustomization] = documents(folder)
    used = {
        *kustomization.get("resources", ()),
        *(one["path"] for one in kustomization.get("patches", ()) if "path" in one),
        *(name for one in kustomization.get("configMapGenerator", ()) for name in one["files"]),
    }
    here = {path.name for path in folder.parent.iterdir()} - {"kustomization.yaml"}
    assert here == {name for name in used if not name.startswith("..")}
    for name in (*used, *kustomization.get("components", ())):
        assert (folder.parent / name).exists()


PLAIN = [path for path in sorted((ROOT / "manifests").rglob("*.yaml")) if "templates" not in path.parts]


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.name)
def test_every_file_is_yaml(path: Path) -> None:
    assert list(yaml.safe_load_all(path.read_text()))
