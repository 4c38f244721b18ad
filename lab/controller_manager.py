"""kube-controller-manager: with it Deployments, Jobs, DaemonSets, budgets and the fate of silent Nodes are real."""

from pathlib import Path

from lab.credentials import ServingCertificate
from lab.ports import Ports
from lab.probe import answers_ok
from lab.process import Daemon
from lab.sandbox import Sandbox

NODE_MONITOR_GRACE = "20s"
"""How long a Node may be silent before it is NotReady; the default of 50 s makes tests of it slow."""

WITHOUT = (
    "serviceaccount-token-controller",
    "certificatesigningrequest-signing-controller",
    "root-ca-certificate-publisher-controller",
    "bootstrap-signer-controller",
    "token-cleaner-controller",
)
"""Controllers that need keys and certificates of a real cluster."""


def controller_manager(
    sandbox: Sandbox, binaries: Path, home: Path, ports: Ports, *, kubeconfig: Path, certificate: ServingCertificate
) -> Daemon:
    """Return the daemon; it works with the rights of its own user and controllers' roles."""
    port = ports.take()
    url = f"https://127.0.0.1:{port}"
    folder = home / "controller-manager"
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(binaries / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate.certificate}",
        f"--tls-private-key-file={certificate.key}",
        f"--cert-dir={folder}",
        "--leader-elect=false",
        # As in real clusters each controller has its own ServiceAccount; the user itself may do next to nothing.
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={home / 'apiserver' / 'service-accounts.key'}",
        f"--node-monitor-grace-period={NODE_MONITOR_GRACE}",
        "--node-monitor-period=1s",
        f"--controllers=*,{','.join(f'-{name}' for name in WITHOUT)}",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]
    log = home / "log" / "kube-controller-manager.log"
    return Daemon(
        "kube-controller-manager",
        sandbox,
        command,
        log=log,
        url=url,
        ready=lambda: answers_ok(f"{url}/healthz", ca_file=certificate.ca_file),
    )
