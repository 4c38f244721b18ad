"""Merge kubeconfig files and kubectl's flags: which API server, and as which user."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from extender.config.yaml_text import YamlFault, read_stream

Json = dict[str, Any]

ONE = "kubectl-slurm"
"""The name of the only context, cluster and user in what is made here."""

_PATHS = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}
_TEXTS = frozenset(
    [
        "server",
        "tls-server-name",
        "proxy-url",
        "certificate-authority",
        "certificate-authority-data",
        "cluster",
        "user",
        "namespace",
        "token",
        "tokenFile",
        "username",
        "password",
        "as",
        "as-uid",
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
    ]
)
"""Keys whose value must be text."""

_CREDENTIALS = ("token", "tokenFile", "username", "password", "exec", "auth-provider")


_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?", re.ASCII)
_LONGEST_NAME = 253


class KubeconfigError(Exception):
    """Kubeconfig and flags cannot be used; the text names file, key and value."""


@dataclass(frozen=True, slots=True)
class Flags:
    """kubectl's own, as they were given; "" where they were not."""

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    server: str = ""
    token: str = ""
    as_user: str = ""
    as_groups: tuple[str, ...] = ()
    as_uid: str = ""
    certificate_authority: str = ""
    client_certificate: str = ""
    client_key: str = ""
    tls_server_name: str = ""
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """`config` is a kubeconfig with one context; `None`: the ServiceAccount of this process's Pod."""

    config: Json | None
    namespace: str
    headers: tuple[tuple[str, str], ...] = ()
    """Whom to act as."""

    source: str = ""
    """The origin of the configuration, for messages."""


def target(flags: Flags, environ: Mapping[str, str], home: Path) -> Target:
    """Return where the commands connect to, and as which user. Raises KubeconfigError."""
    files = _files(flags, environ, home)
    if not files and not flags.server:
        if environ.get("KUBERNETES_SERVICE_HOST"):
            return Target(None, flags.namespace or "default", _headers(flags, {}), "the Pod's service account")
        if named := environ.get("KUBECONFIG"):
            raise KubeconfigError(f"there is no kubeconfig: KUBECONFIG names {named}, which is not there")
        default = home / ".kube" / "config"
        raise KubeconfigError(
            f"there is no kubeconfig: neither --kubeconfig nor KUBECONFIG names one, and {default} is not there"
        )
    merged = _merged(files)
    name = flags.context or merged["current-context"]
    context = _named(merged, "contexts", name, "context") if name else {}
    cluster_name, user_name = flags.cluster or context.get("cluster", ""), flags.user or context.get("user", "")
    cluster = _named(merged, "clusters", cluster_name, "cluster") if cluster_name else {}
    user = _named(merged, "users", user_name, "user") if user_name else {}
    _override(flags, cluster, user)
    where = f"kubeconfig {', '.join(str(file) for file in files)}" if files else "the flags"
    if not cluster.get("server"):
        raise KubeconfigError(f"{where}: no server is named; use-context, --context, --cluster or --server would")
    _check_server(str(cluster["server"]), where)
    config = {
        "current-context": ONE,
        "contexts": [{"name": ONE, "context": {"cluster": ONE, "user": ONE}}],
        "clusters": [{"name": ONE, "cluster": cluster}],
        "users": [{"name": ONE, "user": user}],
    }
    namespace = str(flags.namespace or context.get("namespace") or "default")
    if not is_name(namespace):
        raise KubeconfigError(f"namespace {namespace!r} can be none: lower-case letters, digits and - are allowed")
    return Target(config, namespace, _headers(flags, user), where)


def check_files(to: Target) -> None:
    """Raise KubeconfigError if a named file does not exist: the error of opening it would not name it."""
    if to.config is None:
        return
    for kind, inner in (("clusters", "cluster"), ("users", "user")):
        settings = to.config[kind][0][inner]
        for key in _PATHS[inner]:
            if settings.get(key) and not Path(settings[key]).is_file():
                raise KubeconfigError(f"{to.source}: {key}: there is no file {settings[key]}")


def contexts(flags: Flags, environ: Mapping[str, str], home: Path) -> list[str]:
    """Return the names of contexts, for completion. Raises KubeconfigError."""
    return sorted(one.get("name", "") for one in _merged(_files(flags, environ, home))["contexts"])


def _headers(flags: Flags, user: Json) -> tuple[tuple[str, str], ...]:
    groups = flags.as_groups or tuple(user.get("as-groups") or ())
    headers = [
        ("Impersonate-User", flags.as_user or user.get("as", "")),
        ("Impersonate-Uid", flags.as_uid or user.get("as-uid", "")),
        *(("Impersonate-Group", group) for group in groups),
    ]
    for name, value in headers:
        if not str(value).isprintable():
            flag = name.replace("Impersonate", "as").lower().removesuffix("-user")
            raise KubeconfigError(f"--{flag} {value!r}: no header can hold that")
    return tuple((name, str(value)) for name, value in headers if value)


def is_name(text: str) -> bool:
    """Return whether an object can have this name: a DNS subdomain (`apimachinery/pkg/util/validation`)."""
    return len(text) <= _LONGEST_NAME and _NAME.fullmatch(text) is not None


def _check_server(server: str, where: str) -> None:
    try:
        parts = urlsplit(server)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and server.isprintable() and " " not in server
        _ = parts.port
    except ValueError:
        good = False
    if not good:
        raise KubeconfigError(f"{where}: the server {server!r} must read https://HOST:PORT")


def _override(flags: Flags, cluster: Json, user: Json) -> None:
    if flags.server:
        cluster["server"] = flags.server
    if flags.tls_server_name:
        cluster["tls-server-name"] = flags.tls_server_name
    if flags.certificate_authority:
        cluster.pop("certificate-authority-data", None)
        cluster["certificate-authority"] = flags.certificate_authority
    if flags.insecure:  # as client-go: an authority beside it would be a contradiction
        for key in ("certificate-authority", "certificate-authority-data"):
            cluster.pop(key, None)
        cluster["insecure-skip-tls-verify"] = True
    for key, value in (("client-certificate", flags.client_certificate), ("client-key", flags.client_key)):
        if value:
            user.pop(f"{key}-data", None)
            user[key] = value
    if flags.token:
        for key in _CREDENTIALS:
            user.pop(key, None)
        user["token"] = flags.token


def _files(flags: Flags, environ: Mapping[str, str], home: Path) -> list[Path]:
    if flags.kubeconfig:
        return [Path(flags.kubeconfig)]
    if named := [Path(one) for one in environ.get("KUBECONFIG", "").split(":") if one]:
        return [one for one in named if one.exists()]
    default = home / ".kube" / "config"
    return [default] if default.exists() else []


def _merged(files: Iterable[Path]) -> Json:
    """Merge as client-go does: of two of one name the first counts, and the first current context."""
    merged: Json = {"current-context": "", "contexts": [], "clusters": [], "users": []}
    for file in files:
        found = _read(file)
        context = found.get("current-context") or ""
        if not isinstance(context, str):
            raise KubeconfigError(f"{file}: current-context must be a name, not {type(context).__name__}")
        merged["current-context"] = merged["current-context"] or context
        for kind, inner in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            known = {one["name"] for one in merged[kind]}
            for one in _entries(file, found, kind):
                if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                    raise KubeconfigError(f"{file}: {kind}: each needs a name, and {repr(one)[:80]} has none")
                if one["name"] not in known:
                    settings = _fields(file, one, inner)
                    for key in _PATHS.get(inner, ()):
                        if settings.get(key):
                            settings[key] = str(file.parent.absolute() / settings[key])
                    merged[kind].append({"name": one["name"], inner: settings})
    return merged


def _entries(file: Path, found: Json, kind: str) -> list[Any]:
    entries = found.get(kind) or []
    if not isinstance(entries, list):
        raise KubeconfigError(f"{file}: {kind} must be a list, not {type(entries).__name__}")
    return entries


def _fields(file: Path, one: Json, inner: str) -> Json:
    """Return the fields of an entry. Raises KubeconfigError if a value that must be text is not."""
    settings = one.get(inner) or {}
    if not isinstance(settings, dict):
        raise KubeconfigError(f"{file}: {one['name'][:80]}: {inner} must be a map, not {type(settings).__name__}")
    for key, value in settings.items():
        if key in _TEXTS and value is not None and not isinstance(value, str):
            raise KubeconfigError(f"{file}: {one['name'][:80]}: {key} must be text, not {type(value).__name__}")
    return dict(settings)


def _read(file: Path) -> Json:
    try:
        documents = read_stream(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YamlFault) as error:
        raise KubeconfigError(f"kubeconfig {file}: {error}") from error
    if len(documents) > 1:
        raise KubeconfigError(f"kubeconfig {file}: it must hold one document, not {len(documents)}")
    found = documents[0] if documents else None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise KubeconfigError(f"kubeconfig {file}: it must hold a mapping, not {type(found).__name__}")
    return found


def _named(merged: Json, kind: str, name: str, inner: str) -> Json:
    for one in merged[kind]:
        if one["name"] == name:
            return dict(one[inner])
    known = ", ".join(one["name"] for one in merged[kind]) or "none"
    raise KubeconfigError(f'kubeconfig: {kind} has no "{name}"; there is: {known}')
