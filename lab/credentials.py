"""Credentials for the lab's API server: users with static tokens, a certificate authority, kubeconfig files."""

import csv
import io
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import trustme
import yaml

ADMIN = "admin"
EXTENDER = "system:serviceaccount:slurm-extender:slurm-extender"
CERTIFICATES = "system:serviceaccount:slurm-extender:slurm-extender-certificates"
SCHEDULER = "system:kube-scheduler"
CONTROLLER_MANAGER = "system:kube-controller-manager"
KWOK = "kwok"


@dataclass(frozen=True, slots=True)
class User:
    """A user of the API server, with the groups the authenticator would give it."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


def service_account(namespace: str, name: str) -> User:
    """Return the user and groups of a ServiceAccount's token (apiserver ``serviceaccount.MakeUsername``)."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


def default_users() -> list[User]:
    """Return an administrator, the control plane, kwok (which does what every kubelet does) and the extender."""
    return [
        User(ADMIN, ("system:masters",)),
        User(SCHEDULER),
        User(CONTROLLER_MANAGER),
        User(KWOK, ("system:masters",)),
        service_account("slurm-extender", "slurm-extender"),
        # A kube-scheduler that is deployed with the extender, under its own ServiceAccount.
        service_account("slurm-extender", "slurm-scheduler"),
        service_account("slurm-extender", "slurm-extender-certificates"),
    ]


def kubelet_user(node: str) -> User:
    """Return the user that the kubelet of ``node`` is, with the rights that the Node authorizer gives it."""
    return User(f"system:node:{node}", ("system:nodes",))


def token_file(users: Iterable[User]) -> str:
    """Build the CSV of ``--token-auth-file``: token, user, uid and the quoted list of groups."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for user in users:
        writer.writerow([user.token, user.name, user.name, *([",".join(user.groups)] if user.groups else [])])
    return text.getvalue()


def kubeconfig(server: str, ca_file: Path, user: User) -> str:
    """Build a kubeconfig file with one cluster and one user."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
            "users": [{"name": user.name, "user": {"token": user.token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user.name}}],
            "current-context": "lab",
        },
        sort_keys=False,
    )


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """Files of a certificate for loopback and the API server's own names, and of the authority that signed it."""

    ca_file: Path
    certificate: Path
    key: Path


def issue(folder: Path) -> ServingCertificate:
    """Make an authority and one serving certificate for all components, in ``folder``."""
    authority = trustme.CA()
    names = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    leaf = authority.issue_cert(*names)
    files = ServingCertificate(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    folder.mkdir(parents=True, exist_ok=True)
    authority.cert_pem.write_to_path(files.ca_file)
    leaf.private_key_pem.write_to_path(files.key)
    files.key.chmod(0o600)
    files.certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    return files


def service_account_key(path: Path) -> Path:
    """Write the RSA key that signs ServiceAccount tokens to ``path`` and return it.

    Any certificate's key will do; one is made apart so that it is not the serving key.
    """
    key = trustme.CA(key_type=trustme.KeyType.RSA).issue_cert("service-accounts", key_type=trustme.KeyType.RSA)
    path.touch(mode=0o600)
    key.private_key_pem.write_to_path(path)
    return path
