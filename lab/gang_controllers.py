"""Run the controllers of JobSet, LeaderWorkerSet, scheduler-plugins and Kueue beside an API server of the lab.

Each gets the definitions, rights and webhooks that its project ships, and works with the token of its ServiceAccount.
Three things differ from an installation in a cluster: the webhooks are called at an address of loopback instead of a
Service, their certificate comes from the lab, and there is no leader election.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.build_controllers import (
    COSCHEDULING,
    JOBSET,
    KUEUE,
    LWS,
    MANIFESTS,
    ControllerRecipe,
    build_controller,
)
from lab.clock import wait_until
from lab.kube import Kubernetes
from lab.manifests import RIGHTS, Document, of_kind
from lab.probe import answers_ok, request
from lab.process import Daemon

HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
DEFINITION = "CustomResourceDefinition"
INSTALLED = (DEFINITION, *RIGHTS, *HOOKS)
HOOKS_PATH = "/apis/admissionregistration.k8s.io/v1"
OK, NOT_FOUND = 200, 404


@dataclass(frozen=True, slots=True)
class Serving:
    """Hold the addresses at which a controller serves webhooks and probes, and the folder with its configuration."""

    hooks: int
    probes: int
    folder: Path

    def loopback(self, port: int) -> str:
        """Return the address of a port."""
        return f"127.0.0.1:{port}"


@dataclass(frozen=True, slots=True)
class GangController:
    """Describe one controller: its manifests, its arguments, and the command in front of it, if any."""

    recipe: ControllerRecipe
    objects: Callable[[Kubernetes, Path], list[Document]]
    arguments: Callable[[Serving], list[str]]
    started_by: Callable[[Serving], list[str]] = lambda _serving: []


@contextmanager
def running(kube: Kubernetes, controller: GangController) -> Iterator[Daemon]:
    """Install the controller's objects and run it until the block ends; its webhooks are removed then.

    The definitions stay: to remove them would end every watch of their objects.
    """
    recipe = controller.recipe
    built = build_controller(recipe)
    serving = Serving(kube.take_port(), kube.take_port(), kube.serving_files(kube.home / recipe.folder))
    documents = of_kind(controller.objects(kube, built / MANIFESTS), INSTALLED)
    ca_bundle = kube.ca_bundle()
    for document in documents:
        redirect(document, f"https://{serving.loopback(serving.hooks)}", ca_bundle)
    hooks = of_kind(documents, HOOKS)
    apply(kube, [document for document in documents if document not in hooks])
    wait_served(kube, of_kind(documents, [DEFINITION]))
    (account,) = of_kind(documents, ["ServiceAccount"])
    kubeconfig = kube.kubeconfig_of_account(account["metadata"]["namespace"], account["metadata"]["name"])
    daemon = kube.component(
        recipe.folder,
        [*controller.started_by(serving), str(built / recipe.program), *controller.arguments(serving)],
        ready=lambda: _serves(kube, serving, hooks),
        url=f"http://{serving.loopback(serving.probes)}",
        environment={"KUBECONFIG": str(kubeconfig)},
    )
    daemon.start()
    try:
        apply(kube, hooks)
        yield daemon
    finally:
        for hook in hooks:
            kube.api("DELETE", f"{HOOKS_PATH}/{hook['kind'].lower()}s/{hook['metadata']['name']}")
        daemon.stop()


def apply(kube: Kubernetes, documents: Iterable[Document]) -> None:
    """Create or replace objects; the server side does it, since a definition is too long for an annotation."""
    listed = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    if listed["items"]:
        kube.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=_dumped(listed))


def wait_served(kube: Kubernetes, definitions: Iterable[Document]) -> None:
    """Wait until the API server serves the objects of these definitions, which takes it some seconds."""
    paths = [
        f"/apis/{one['spec']['group']}/{version['name']}/{one['spec']['names']['plural']}?limit=1"
        for one in definitions
        for version in one["spec"]["versions"]
        if version["served"]
    ]
    wait_until(
        lambda: all(kube.api("GET", path)[0] == OK for path in paths), f"{', '.join(paths)} are served", timeout_s=60
    )


def redirect(value: Any, base: str, ca_bundle: str) -> None:
    """Let every webhook in an object be called at ``base`` instead of its Service, path by path."""
    if isinstance(value, list):
        for one in value:
            redirect(one, base, ca_bundle)
    elif isinstance(value, dict):
        config = value.get("clientConfig")
        if isinstance(config, dict) and "service" in config:
            path = config["service"].get("path", "/")
            value["clientConfig"] = {"url": f"{base}{path}", "caBundle": ca_bundle}
        for one in value.values():
            redirect(one, base, ca_bundle)


def _serves(kube: Kubernetes, serving: Serving, hooks: Iterable[Document]) -> bool:
    """Return whether the probe succeeds and each path of a webhook is served.

    The probe of LeaderWorkerSet is green before its webhooks listen, and paths are registered one after the other.
    """
    if not answers_ok(f"http://{serving.loopback(serving.probes)}/readyz"):
        return False
    addresses = {one["clientConfig"]["url"] for hook in hooks for one in hook["webhooks"]}
    return all(
        request("POST", address, body={}, ca_file=kube.ca_file, timeout_s=5)[0] != NOT_FOUND for address in addresses
    )


def _kustomized(folder: str) -> Callable[[Kubernetes, Path], list[Document]]:
    def rendered(kube: Kubernetes, manifests: Path) -> list[Document]:
        return _loaded(kube.kubectl("kustomize", str(manifests / folder)))

    return rendered


def _plain_files(*names: str) -> Callable[[Kubernetes, Path], list[Document]]:
    def read(_kube: Kubernetes, manifests: Path) -> list[Document]:
        return [document for name in names for document in _loaded((manifests / name).read_text(encoding="utf-8"))]

    return read


def _loaded(text: str) -> list[Document]:
    """Parse YAML by libyaml: the definitions of LeaderWorkerSet are 37,000 lines."""
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def _dumped(value: object) -> str:
    return yaml.dump(value, Dumper=yaml.CSafeDumper)


def _configured(group: str, serving: Serving, **more: Any) -> Path:
    """Write the configuration file that JobSet, LeaderWorkerSet and Kueue have in common."""
    path = serving.folder / "config.yaml"
    document = {
        "apiVersion": group,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": serving.hooks, "certDir": str(serving.folder)},
        "health": {"healthProbeBindAddress": serving.loopback(serving.probes)},
        "metrics": {"bindAddress": "0"},
        **more,
    }
    path.write_text(_dumped(document))
    return path


def _jobset_arguments(serving: Serving) -> list[str]:
    return [f"--config={_configured('config.jobset.x-k8s.io/v1alpha1', serving)}"]


def _lws_arguments(serving: Serving) -> list[str]:
    # The flag is true by default and beats the file.
    return [f"--config={_configured('config.lws.x-k8s.io/v1alpha1', serving)}", "--leader-elect=false"]


def _coscheduling_arguments(serving: Serving) -> list[str]:
    return ["--metricsAddr=0", f"--probeAddr={serving.loopback(serving.probes)}", "--enableLeaderElection=false"]


def _kueue_arguments(serving: Serving) -> list[str]:
    # The server of pending workloads would listen on a fixed port of every address.
    config = _configured(
        "config.kueue.x-k8s.io/v1beta2",
        serving,
        integrations={"frameworks": ["batch/job", "pod", "statefulset"]},
        featureGates={"VisibilityOnDemand": False},
    )
    return [f"--config={config}"]


def _with_metrics_certificate(serving: Serving) -> list[str]:
    """Return what runs a program with an /etc of its own: there Kueue wants a certificate, even without metrics."""
    etc = serving.folder / "etc"
    certificates = etc / "kueue/metrics/certs"
    certificates.mkdir(parents=True, exist_ok=True)
    for name in ("tls.crt", "tls.key"):
        shutil.copy(serving.folder / name, certificates / name)
    return ["unshare", "--mount", "--", "sh", "-euc", 'mount --bind "$0" /etc && exec "$@"', str(etc)]


JOB_SETS = GangController(JOBSET, _kustomized("config/default"), _jobset_arguments)
LEADER_WORKER_SETS = GangController(LWS, _kustomized("config/default"), _lws_arguments)
POD_GROUPS = GangController(
    COSCHEDULING,
    _plain_files(
        "manifests/coscheduling/crd.yaml",
        "manifests/capacityscheduling/crd.yaml",
        "manifests/install/all-in-one.yaml",
    ),
    _coscheduling_arguments,
)
QUEUES = GangController(KUEUE, _kustomized("config/default"), _kueue_arguments, _with_metrics_certificate)
