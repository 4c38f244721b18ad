"""kwok in the place of all kubelets: it renews Node leases, runs Pods that run nothing, and lets them end."""

from collections.abc import Callable
from pathlib import Path

from lab.ports import Ports
from lab.probe import answers_ok
from lab.process import Daemon
from lab.sandbox import Sandbox

STAGES = Path(__file__).with_name("kwok") / "stages.yaml"
FORWARDED = """\
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterPortForward
metadata:
  name: every-port
spec:
  forwards:
  - target:
      address: 127.0.0.1
      port: {port}
"""
LEASE_SECONDS = 40
"""The kubelets' own default; kwok renews at a quarter of it, well within the controller-manager's patience."""


def kwok(
    sandbox: Sandbox,
    binaries: Path,
    home: Path,
    ports: Ports,
    *,
    kubeconfig: Path,
    forwarded: int,
    drop_leases: Callable[[], None],
    selector: str = "",
) -> Daemon:
    """Return the daemon; stop it, and within half a minute every Node is NotReady, as when kubelets die.

    Whatever port of whichever Pod is forwarded leads to ``forwarded`` on loopback: Pods run nothing.

    With ``selector`` only Nodes with that label are kwok's; others have kubelets.

    ``drop_leases`` deletes all Node leases. A kubelet that comes back renews its own lease at once; a kwok that comes
    back has a new identity and waits for the old one's leases to expire (kwok ``node_lease_controller.go``).
    """
    port = ports.take()
    url = f"http://127.0.0.1:{port}"
    config = home / "kwok.yaml"
    config.write_text(STAGES.read_text() + FORWARDED.format(port=forwarded))
    command = [
        str(binaries / "kwok"),
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        *([f"--manage-nodes-with-label-selector={selector}"] if selector else []),
        f"--manage-all-nodes={'false' if selector else 'true'}",
        f"--node-lease-duration-seconds={LEASE_SECONDS}",
        f"--server-address=127.0.0.1:{port}",
        "--node-ip=127.0.0.1",
        "--cidr=10.128.0.0/9",
    ]
    log = home / "log" / "kwok.log"
    return Daemon(
        "kwok",
        sandbox,
        command,
        log=log,
        url=url,
        prepare=drop_leases,
        ready=lambda: answers_ok(f"{url}/healthz"),
    )
