"""Read the files that the configuration names, and verify its certificates by a TLS handshake in memory."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from extender.certificates.tls.contexts import ReloadingTls, TlsError
from extender.config.document import ExtenderConfiguration
from extender.config.faults import ConfigError
from extender.config.policy_file import load_policy
from extender.config.serving import ServerTls
from extender.doctor.facts import Certificate, NamedFile, PolicyReading
from extender.doctor.tools import Tools


def named_paths(config: ExtenderConfiguration) -> list[tuple[str, str]]:
    """Return every file by its key, including certificates and the policy."""
    slurm, hooks = config.slurm, config.hooks
    named = [
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
        named += [
            (f"{group}.certificateFile", tls.certificate_file),
            (f"{group}.keyFile", tls.key_file),
            (f"{group}.clientCaFile", tls.client_ca_file),
        ]
    return [(key, path) for key, path in named if path is not None]


def named_files(config: ExtenderConfiguration, tools: Tools) -> list[NamedFile]:
    """Check the files; the policy and served certificates have checks of their own."""
    others = ("jobs.", "http.", "admission.", "hooks.tls.")
    return [_read_file(key, path, tools) for key, path in named_paths(config) if not key.startswith(others)]


def read_policy(config: ExtenderConfiguration, tools: Tools) -> PolicyReading | None:
    """Read the policy file. `None`: the configuration names none."""
    path = config.jobs.policy_file
    if path is None:
        return None
    if _missing(path) and not _mounted(path, tools):
        return PolicyReading(path, remote=True)
    try:
        found = load_policy(Path(path), config)
    except ConfigError as error:
        return PolicyReading(path, faults=error.faults)
    return PolicyReading(path, rules=len(found.pods.rules))


def read_certificates(
    config: ExtenderConfiguration, tools: Tools, names: Mapping[str, Sequence[str]]
) -> list[Certificate]:
    """Verify each certificate. `names` are the names that clients call, by group: `http.tls`."""
    return [_certificate(config, group, tls, tools, names.get(group, ())) for group, tls in _served(config)]


def own_names(config: ExtenderConfiguration) -> dict[str, list[str]]:
    """Return the names that clients call according to the configuration, by group."""
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
    if _missing(file) and not _mounted(file, tools):
        return Certificate(group, file, absent=True)
    try:
        expires = ReloadingTls(tls).expires_at
    except TlsError as error:
        return Certificate(group, file, error=str(error))
    rejections = {name: rejection(tls, name) for name in names}
    authority = (config.leader_election.ca_file or tls.client_ca_file) if group == "http.tls" else None
    chain = None if authority is None else rejection(tls, "", authority)
    return Certificate(group, file, expires_at=expires, names=rejections, chain=chain)


def _served(config: ExtenderConfiguration) -> Iterator[tuple[str, ServerTls]]:
    for group, tls in (("http", config.http.tls), ("hooks", config.hooks.tls), ("admission", config.admission.tls)):
        if tls is not None:
            yield f"{group}.tls", tls


def _read_file(key: str, path: str, tools: Tools) -> NamedFile:
    try:
        with open(path, "rb") as file:
            return NamedFile(key, path, empty=not file.read(1))
    except OSError as error:
        absent = isinstance(error, FileNotFoundError)
        return NamedFile(key, path, os.strerror(error.errno or 0), absent=absent, mounted=_mounted(path, tools))


def _mounted(path: str, tools: Tools) -> bool:
    return tools.in_a_pod or not _missing(str(Path(path).parent))


def _missing(path: str) -> bool:
    """Return whether a path is known to be missing; `False`: it is there, or the system refuses to look it up."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def rejection(served: ServerTls, name: str, authority: str | None = None) -> str:
    """Return the error of a client that calls `name` ("": it checks no name), as OpenSSL says it; "": it accepts.

    `authority` is the file of the authorities that the client trusts; `None`: it trusts this certificate, so that only
    its dates and names are verified.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = bool(name)
    try:
        server.load_cert_chain(served.certificate_file, served.key_file)
        client.load_verify_locations(authority or served.certificate_file)
    except (OSError, ssl.SSLError) as error:
        return str(error)
    if authority is None:
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname=name or None),
        server.wrap_bio(there, back, server_side=True),
    ]
    for _ in range(_ROUNDS):
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
            except ssl.SSLError as error:
                return str(error)
            ends.remove(end)
        if not ends:
            return ""
    return "the handshake does not complete"


_ROUNDS = 10
"""TLS 1.3 takes two."""
