"""Looks at the files that the configuration names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from extender.certificates.tls.contexts import ReloadingTls, TlsError
from extender.config.document import ExtenderConfiguration
from extender.config.faults import ConfigError
from extender.config.policy_text import load_policy
from extender.config.serving import ServerTls
from extender.doctor.checks.certificates import Certificate
from extender.doctor.checks.files import NamedFile
from extender.doctor.checks.policy import Policy
from extender.doctor.gather.handshake import believed
from extender.doctor.tools import Tools


def named_paths(config: ExtenderConfiguration) -> list[tuple[str, str]]:
    """Every file by its key, certificates and the policy among them."""
    slurm, hooks = config.slurm, config.hooks
    given = [
        ("slurm.tokenFile", slurm.token_file),
        ("slurm.jwtKeyFile", slurm.jwt_key_file),
        ("slurm.tls.caFile", slurm.tls.ca_file),
        ("slurm.tls.certificateFile", slurm.tls.certificate_file),
        ("slurm.tls.keyFile", slurm.tls.key_file),
        ("hooks.keyFile", hooks.key_file),
        ("hooks.siteKeyFile", hooks.site_key_file),
        ("leaderElection.caFile", config.leader_election.ca_file),
        ("jobs.policyFile", config.jobs.policy_file),
    ]
    for group, tls in _served(config):
        given += [
            (f"{group}.certificateFile", tls.certificate_file),
            (f"{group}.keyFile", tls.key_file),
            (f"{group}.clientCaFile", tls.client_ca_file),
        ]
    return [(key, path) for key, path in given if path is not None]


def named_files(config: ExtenderConfiguration, tools: Tools) -> list[NamedFile]:
    """What there is of them; the policy and certificates to serve with have checks of their own."""
    others = ("jobs.", "http.", "admission.", "hooks.tls.")
    return [_looked(key, path, tools) for key, path in named_paths(config) if not key.startswith(others)]


def read_policy(config: ExtenderConfiguration, tools: Tools) -> Policy | None:
    """The policy file; `None`: the configuration names none."""
    path = config.jobs.policy_file
    if path is None:
        return None
    if not Path(path).exists() and not _mounted(path, tools):
        return Policy(path, elsewhere=True)
    try:
        found = load_policy(Path(path), config)
    except ConfigError as error:
        return Policy(path, faults=error.faults)
    return Policy(path, rules=len(found.pods.rules))


def read_certificates(
    config: ExtenderConfiguration, tools: Tools, names: Mapping[str, Sequence[str]]
) -> list[Certificate]:
    """`names` are those by which others call, by group: `http.tls`."""
    return [_certificate(config, group, tls, tools, names.get(group, ())) for group, tls in _served(config)]


def own_names(config: ExtenderConfiguration) -> dict[str, list[str]]:
    """By which names the configuration itself says that it is called."""
    found: dict[str, list[str]] = {}
    if config.leader_election.enabled and config.leader_election.tls_server_name:
        found["http.tls"] = [config.leader_election.tls_server_name]
    host = urlsplit(config.hooks.url or "").hostname
    if host and (config.hooks.url or "").startswith("https:"):
        found["hooks.tls"] = [host]
    return found


def _certificate(
    config: ExtenderConfiguration, group: str, tls: ServerTls, tools: Tools, names: Sequence[str]
) -> Certificate:
    file = tls.certificate_file
    if not Path(file).exists() and not _mounted(file, tools):
        return Certificate(group, file, absent=True)
    try:
        expires = ReloadingTls(tls).expires_at
    except TlsError as error:
        return Certificate(group, file, error=str(error))
    said = {name: believed(tls, name) for name in names}
    authority = (config.leader_election.ca_file or tls.client_ca_file) if group == "http.tls" else None
    chain = None if authority is None else believed(tls, "", authority)
    return Certificate(group, file, expires_at=expires, names=said, chain=chain)


def _served(config: ExtenderConfiguration) -> Iterator[tuple[str, ServerTls]]:
    for group, tls in (("http", config.http.tls), ("hooks", config.hooks.tls), ("admission", config.admission.tls)):
        if tls is not None:
            yield f"{group}.tls", tls


def _looked(key: str, path: str, tools: Tools) -> NamedFile:
    try:
        with open(path, "rb") as file:
            return NamedFile(key, path, empty=not file.read(1))
    except OSError as error:
        absent = isinstance(error, FileNotFoundError)
        return NamedFile(key, path, os.strerror(error.errno or 0), absent=absent, mounted=_mounted(path, tools))


def _mounted(path: str, tools: Tools) -> bool:
    return tools.in_a_pod or Path(path).parent.is_dir()
