"""kube-scheduler, as many as wanted, each with the configuration it is given."""

from pathlib import Path
from typing import Any

import yaml

from lab.credentials import ServingCertificate
from lab.errors import LabError
from lab.ports import Ports
from lab.probe import answers_ok
from lab.process import Daemon
from lab.sandbox import Sandbox

DEFAULT_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""


def completed(config_text: str, kubeconfig: Path) -> str:
    """Fill what a lab decides into a KubeSchedulerConfiguration; raises LabError if the text is not one.

    ``--kubeconfig`` is ignored beside ``--config`` (kube-scheduler ``options.go``), so the path goes into the text.
    Leader election is switched off unless the text speaks of it.
    """
    config: Any = yaml.safe_load(config_text)
    if not isinstance(config, dict) or config.get("kind") != "KubeSchedulerConfiguration":
        kind = config.get("kind") if isinstance(config, dict) else type(config).__name__
        raise LabError(f"a KubeSchedulerConfiguration is needed, not {kind}")
    config["clientConnection"] = {**(config.get("clientConnection") or {}), "kubeconfig": str(kubeconfig)}
    config.setdefault("leaderElection", {"leaderElect": False})
    return yaml.safe_dump(config, sort_keys=False)


def scheduler(
    sandbox: Sandbox,
    binaries: Path,
    home: Path,
    ports: Ports,
    *,
    name: str,
    config_text: str,
    kubeconfig: Path,
    certificate: ServingCertificate,
    feature_gates: str,
) -> Daemon:
    """Return the daemon; ``url`` serves /healthz and, to those RBAC lets, /metrics."""
    folder = home / name
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.yaml"
    config.write_text(completed(config_text, kubeconfig))
    port = ports.take()
    url = f"https://127.0.0.1:{port}"
    command = [
        str(binaries / "kube-scheduler"),
        f"--config={config}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate.certificate}",
        f"--tls-private-key-file={certificate.key}",
        f"--cert-dir={folder}",
    ]
    if feature_gates:
        command.append(f"--feature-gates={feature_gates}")
    return Daemon(
        name,
        sandbox,
        command,
        log=home / "log" / f"{name}.log",
        url=url,
        ready=lambda: answers_ok(f"{url}/readyz", ca_file=certificate.ca_file),
    )
