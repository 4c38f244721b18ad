"""kube-apiserver with RBAC and static tokens."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.credentials import ServingCertificate, User, service_account_key, token_file
from lab.ports import Ports
from lab.probe import answers_ok
from lab.process import Daemon
from lab.sandbox import Sandbox

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  users: [kwok]
  verbs: [patch]
  resources: [{group: "", resources: [pods/status]}]
- level: Metadata
"""


KUBELET_ARGUMENTS = (
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--kubelet-preferred-address-types=InternalIP",
)


def audit_log(home: Path) -> Path:
    """Return the path of the audit log, one JSON object a line."""
    return home / "log" / "audit.log"


def audited(home: Path) -> Iterator[str]:
    """Yield the lines of the audit log, one JSON object each, without a last line that is still incomplete."""
    with audit_log(home).open(encoding="utf-8") as lines:
        yield from (line for line in lines if line.endswith("\n"))


def apiserver(
    sandbox: Sandbox,
    binaries: Path,
    home: Path,
    ports: Ports,
    *,
    etcd_url: str,
    users: Sequence[User],
    admin: User,
    certificate: ServingCertificate,
    audit: bool,
    feature_gates: str,
    runtime_config: str = "",
    disabled_admission: Sequence[str],
    kubelets: bool = False,
) -> Daemon:
    """Return the daemon; ready once every bootstrap hook is done (RBAC's roles among them). ``url`` is its address.

    With ``kubelets`` the Node authorizer and NodeRestriction hold real kubelets to their own objects.
    """
    folder = home / "apiserver"
    folder.mkdir(parents=True, exist_ok=True)
    tokens = folder / "tokens.csv"
    tokens.touch(mode=0o600)
    tokens.write_text(token_file(users))
    key = service_account_key(folder / "service-accounts.key")
    port = ports.take()
    url = f"https://127.0.0.1:{port}"
    command = [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        # The Service `kubernetes` would lead to loopback, which 1.37 refuses at the start (controlplane instance.go).
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate.certificate}",
        f"--tls-private-key-file={certificate.key}",
        f"--cert-dir={folder}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--token-auth-file={tokens}",
        *(KUBELET_ARGUMENTS if kubelets else ("--authorization-mode=RBAC",)),
        # ServiceAccount would want a token volume in every Pod; kwok mounts none.
        f"--disable-admission-plugins={','.join(['ServiceAccount', *disabled_admission])}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged",
        "--profiling=false",
        # Without it SIGTERM waits up to 60 s for watches to end by themselves (apiserver genericapiserver.go).
        "--shutdown-watch-termination-grace-period=2s",
    ]
    if feature_gates:
        command.append(f"--feature-gates={feature_gates}")
    if runtime_config:
        command.append(f"--runtime-config={runtime_config}")
    if audit:
        policy = folder / "audit.yaml"
        policy.write_text(AUDIT_POLICY)
        command += [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log(home)}", "--audit-log-mode=blocking"]
    headers = {"Authorization": f"Bearer {admin.token}"}
    return Daemon(
        "kube-apiserver",
        sandbox,
        command,
        log=home / "log" / "kube-apiserver.log",
        url=url,
        ready=lambda: answers_ok(f"{url}/readyz", headers=headers, ca_file=certificate.ca_file),
    )
