"""`slurm-extender generate certificates`: what it prints, what it keeps in a folder, and how it fails."""

from __future__ import annotations

import stat
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from extender.certificates.pair import subject_of
from extender.certificates.plan import CERTIFICATE, KEY, TRUSTED
from extender.certificates.renewal import RenewalOptions
from extender.certificates.tls.contexts import CallerTls, ReloadingTls
from extender.cli import main
from extender.config.serving import ServerTls

NAMES = {RenewalOptions("n", timedelta()).authority, *RenewalOptions("n", timedelta()).subjects}


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ["generate", "certificates", *words])


WITHOUT_CRYPTOGRAPHY = """
import sys
sys.modules["cryptography"] = None
from extender.cli import main
main(["generate", "certificates", *sys.argv[1:]])
"""


def test_without_cryptography_the_command_names_the_extra_to_install(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WITHOUT_CRYPTOGRAPHY, "--out", str(tmp_path / "made")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: certificates cannot be created: the package cryptography is not installed. "
        "Run `pip install 'slurm-extender[certificates]'`.\n"
    )
    assert not (tmp_path / "made").exists()


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_gets_a_folder_for_each_secret(tmp_path: Path) -> None:
    result = call("--out", str(tmp_path / "made"))
    assert result.exit_code == 0, result.output
    assert len(result.output.splitlines()) == 4
    made = files(tmp_path / "made")
    assert made.keys() == {f"{name}/{key}" for name in NAMES for key in (CERTIFICATE, KEY, TRUSTED)}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "made").rglob("*")}
    assert modes == {0o700, 0o600}


def test_the_programs_can_use_them(tmp_path: Path) -> None:
    call("--out", str(tmp_path), "--san", "127.0.0.1")
    here = tmp_path / "slurm-extender-tls"
    own = ServerTls(
        certificate_file=f"{here / CERTIFICATE}", key_file=f"{here / KEY}", client_ca_file=f"{here / TRUSTED}"
    )
    assert ReloadingTls(own).expires_at is not None
    CallerTls(str(here / TRUSTED), own).context()


def test_the_second_run_finds_everything_good(tmp_path: Path) -> None:
    call("--out", str(tmp_path))
    before = files(tmp_path)
    result = call("--out", str(tmp_path))
    assert (result.exit_code, result.output) == (0, "every certificate is valid\n")
    assert files(tmp_path) == before


def test_a_trial_leaves_no_trace(tmp_path: Path) -> None:
    result = call("--out", str(tmp_path / "made"), "--dry-run")
    assert result.exit_code == 0
    assert "no certificate is stored" in result.output
    assert not (tmp_path / "made").exists()


def test_names_can_be_added(tmp_path: Path) -> None:
    call("--out", str(tmp_path), "-n", "elsewhere", "--san", "10.0.0.7", "--san", "head.example.org")
    certificate = x509.load_pem_x509_certificate((tmp_path / "slurm-extender-tls" / CERTIFICATE).read_bytes())
    names = set(subject_of(certificate).names)
    assert {
        "slurm-extender.elsewhere.svc",
        "slurm-extender-hooks.elsewhere.svc",
        "10.0.0.7",
        "head.example.org",
    } <= names


def test_an_address_may_be_written_in_any_way(tmp_path: Path) -> None:
    words = ("--out", str(tmp_path), "--san", "2001:DB8:0:0::7")
    assert call(*words).exit_code == 0
    assert call(*words).output == "every certificate is valid\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--overlap", "soon"], "--overlap"),
        (["--kubeconfig", "/nowhere/config"], "kubeconfig /nowhere/config"),
        (["--out", "/dev/null/x"], "/dev/null/x"),
        (["--overlap", "soon"], "--overlap soon: it is no duration; such as 24h"),
        (["--overlap", "9999999999999h"], "--overlap 9999999999999h: it must be at most 8760h"),
        (["--san", ""], "'' is neither a host name nor an IP address"),
        (["--san", "höhe.example.org"], "'höhe.example.org' is neither a host name nor an IP address"),
        (["--san", "https://h:8000"], "'https://h:8000' is neither a host name nor an IP address"),
        (["--namespace", "a/b"], "'a/b' is not the name of a namespace"),
        (["--namespace", ""], "'' is not the name of a namespace"),
    ],
)
def test_what_cannot_be_done_is_said(words: list[str], said: str) -> None:
    result = call(*words)
    assert result.exit_code != 0
    assert said in result.output
    assert "Traceback" not in result.output
