"""Files of the configuration: secrets that are missing, certificates that are half there, over, or another's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from extender.assembly.io_context import token_source
from extender.config.document import ExtenderConfiguration
from extender.config.load import parse
from extender.doctor.checks.files import certificates, files, policy
from extender.doctor.finding import Finding, Verdict
from extender.doctor.gather.files import named_files, named_paths, own_names, read_certificates, read_policy
from extender.doctor.tools import Tools
from extender.kube.connection import IN_A_POD
from slurmclient import SlurmClient
from tests.builders.services import StillClock

OK, WARNING, ERROR, SKIPPED = Verdict
NAME = "slurm-extender.slurm-extender.svc"
NOW = datetime.now(UTC)  # noqa: TID251 - trustme dates certificates by the machine's clock

Configured = Callable[..., ExtenderConfiguration]


def tools(config: ExtenderConfiguration, *, in_a_pod: bool = False) -> Tools:
    environ = {IN_A_POD: "10.0.0.1"} if in_a_pod else {}
    return Tools(
        token_source(config.slurm), lambda url, token: SlurmClient([url], token), StillClock(), environ=environ
    )


def configured(body: str) -> ExtenderConfiguration:
    return parse(f"apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\n{body}", "test")


def served(folder: Path, authority: trustme.CA, *names: str, days: float = 100) -> ExtenderConfiguration:
    leaf = authority.issue_cert(
        *(names or (NAME,)), not_before=NOW - timedelta(days=200), not_after=NOW + timedelta(days=days)
    )
    leaf.private_key_pem.write_to_path(folder / "tls.key")
    (folder / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    trustme_ca = folder / "ca.crt"
    if not trustme_ca.exists():
        authority.cert_pem.write_to_path(trustme_ca)
    return of_folder(folder)


def of_folder(folder: Path) -> ExtenderConfiguration:
    tls = f"{{certificateFile: {folder}/tls.crt, keyFile: {folder}/tls.key, clientCaFile: {folder}/ca.crt}}"
    election = f"leaderElection: {{tlsServerName: {NAME}, enabled: true, advertise: h}}"
    return configured(f"slurm: {{token: t}}\nhttp: {{tls: {tls}}}\n{election}\n")


def judged(config: ExtenderConfiguration, *, in_a_pod: bool = False) -> list[Finding]:
    return list(
        certificates(read_certificates(config, tools(config, in_a_pod=in_a_pod), own_names(config)), NOW.timestamp())
    )


def test_a_certificate_that_is_called_by_its_name_is_good(tmp_path: Path) -> None:
    [one] = judged(served(tmp_path, trustme.CA()))
    assert one.verdict is OK, one
    assert one.check == "certificate http.tls"
    assert f"valid for {NAME}" in one.seen


def test_an_expired_certificate_is_found_once(tmp_path: Path) -> None:
    [one] = judged(served(tmp_path, trustme.CA(), days=-3))
    assert one.verdict is ERROR
    assert "expired 3.0 days ago" in one.seen


def test_a_certificate_that_nearly_expires_is_worth_a_word(tmp_path: Path) -> None:
    [one] = judged(served(tmp_path, trustme.CA(), days=2))
    assert one.verdict is WARNING


def test_a_certificate_of_another_name_is_found(tmp_path: Path) -> None:
    [one] = judged(served(tmp_path, trustme.CA(), "other.svc"))
    assert one.verdict is ERROR
    assert f"clients that call {NAME} reject" in one.seen
    assert "Hostname mismatch" in one.seen


def test_a_certificate_of_another_authority_is_found(tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.crt")
    [one] = judged(served(tmp_path, trustme.CA()))
    assert one.verdict is ERROR
    assert "unable to get local issuer certificate" in one.seen


def test_a_half_written_certificate_is_found(tmp_path: Path) -> None:
    config = served(tmp_path, trustme.CA())
    certificate = tmp_path / "tls.crt"
    certificate.write_bytes(certificate.read_bytes()[:200])
    [one] = judged(config)
    assert one.verdict is ERROR
    assert "cannot be used" in one.seen


def test_a_certificate_beside_the_key_of_another_is_found(tmp_path: Path) -> None:
    config = served(tmp_path, trustme.CA())
    trustme.CA().issue_cert("x").private_key_pem.write_to_path(tmp_path / "tls.key")
    [one] = judged(config)
    assert one.verdict is ERROR


def test_a_certificate_that_is_not_there_is_wrong_in_a_pod_and_not_seen_on_a_laptop(tmp_path: Path) -> None:
    config = of_folder(tmp_path / "none")
    assert [one.verdict for one in judged(config)] == [SKIPPED]
    assert [one.verdict for one in judged(config, in_a_pod=True)] == [ERROR]


@pytest.fixture
def keys(tmp_path: Path) -> ExtenderConfiguration:
    return configured(
        f"slurm: {{tokenFile: {tmp_path}/s/token}}\n"
        f"hooks: {{bind: ':1', keyFile: {tmp_path}/s/key, siteKeyFile: {tmp_path}/s/site}}\n"
    )


def test_missing_and_empty_files_are_named_by_their_key(tmp_path: Path, keys: ExtenderConfiguration) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "token").write_text("t")
    (tmp_path / "s" / "key").write_text("")
    found = list(files(named_files(keys, tools(keys))))
    assert [one.verdict for one in found] == [ERROR, ERROR, OK]
    assert found[0].seen == f"hooks.keyFile: {tmp_path}/s/key is empty"
    assert found[1].seen == f"hooks.siteKeyFile: {tmp_path}/s/site cannot be read: No such file or directory"
    assert "Secret" in found[0].advice


def test_files_of_the_pod_are_not_searched_for_on_a_laptop(keys: ExtenderConfiguration) -> None:
    [one] = files(named_files(keys, tools(keys)))
    assert one.verdict is SKIPPED
    assert "kubectl exec" in one.advice
    assert [one.verdict for one in files(named_files(keys, tools(keys, in_a_pod=True)))] == [ERROR, ERROR, ERROR]


def test_every_file_that_the_configuration_can_name_is_checked() -> None:
    config = of_folder(Path("/f"))
    assert [key for key, _ in named_paths(config)] == [
        *("http.tls.certificateFile", "http.tls.keyFile", "http.tls.clientCaFile")
    ]


def policed(path: Path) -> ExtenderConfiguration:
    return configured(f"slurm: {{token: t}}\njobs: {{policyFile: {path}}}\n")


def test_a_policy_with_a_typo_is_found_with_the_key_that_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("apiVersion: slurm-extender.io/v1alpha1\nkind: PodPolicy\nruels: []\n")
    config = policed(file)
    [one] = policy(read_policy(config, tools(config)))
    assert one.verdict is ERROR
    assert f"{file}, line 3: ruels: unknown key; did you mean rules?" in one.seen


def test_a_good_policy_is_good_and_none_is_too(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("apiVersion: slurm-extender.io/v1alpha1\nkind: PodPolicy\n")
    config = policed(file)
    assert [one.verdict for one in policy(read_policy(config, tools(config)))] == [OK]
    bare = configured("slurm: {token: t}\n")
    assert [one.verdict for one in policy(read_policy(bare, tools(bare)))] == [OK]


def test_a_policy_that_is_missing_is_wrong_in_a_pod_and_not_seen_on_a_laptop(tmp_path: Path) -> None:
    config = policed(tmp_path / "none" / "policy.yaml")
    assert [one.verdict for one in policy(read_policy(config, tools(config)))] == [SKIPPED]
    assert [one.verdict for one in policy(read_policy(config, tools(config, in_a_pod=True)))] == [ERROR]


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    """A folder whose files the system refuses to look up, as one that this process may not search: root may any."""
    return tmp_path / ("x" * 300)


@pytest.mark.parametrize("in_a_pod", [False, True])
def test_a_file_in_a_folder_that_cannot_be_searched_is_an_error(hidden: Path, in_a_pod: bool) -> None:
    config = configured(f"slurm: {{tokenFile: {hidden}/token}}\n")
    (found,) = files(named_files(config, tools(config, in_a_pod=in_a_pod)))
    assert (found.verdict, found.seen) == (
        ERROR,
        f"slurm.tokenFile: {hidden}/token cannot be read: File name too long",
    )


@pytest.mark.parametrize("in_a_pod", [False, True])
def test_a_policy_in_a_folder_that_cannot_be_searched_is_an_error(hidden: Path, in_a_pod: bool) -> None:
    config = policed(hidden / "policy.yaml")
    (found,) = policy(read_policy(config, tools(config, in_a_pod=in_a_pod)))
    assert (found.verdict, found.seen) == (ERROR, f"{hidden}/policy.yaml: cannot be read: File name too long")


@pytest.mark.parametrize("in_a_pod", [False, True])
def test_a_certificate_in_a_folder_that_cannot_be_searched_is_an_error(hidden: Path, in_a_pod: bool) -> None:
    (found,) = judged(of_folder(hidden), in_a_pod=in_a_pod)
    assert (found.verdict, found.seen) == (ERROR, f"TLS file {hidden}/tls.crt cannot be read: File name too long")
    assert "readable" in found.advice
