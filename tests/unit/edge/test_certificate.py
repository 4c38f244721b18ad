"""Until when a certificate is good, and that the one in force is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from extender.certificates.tls.contexts import ReloadingTls, TlsError
from extender.certificates.tls.expiry import expiry
from extender.config.serving import ServerTls

AUTHORITY = trustme.CA()


def ending(year: int) -> trustme.LeafCert:
    return AUTHORITY.issue_cert("extender", not_after=datetime(year, 2, 3, 4, 5, 6, tzinfo=UTC))


def pem(certificate: trustme.LeafCert) -> str:
    return "".join(blob.bytes().decode() for blob in certificate.cert_chain_pems)


def at(year: int) -> float:
    return datetime(year, 2, 3, 4, 5, 6, tzinfo=UTC).timestamp()


def write(certificate: trustme.LeafCert, folder: Path) -> ServerTls:
    (folder / "tls.crt").write_text(pem(certificate))
    (folder / "tls.key").write_bytes(certificate.private_key_pem.bytes())
    return ServerTls(certificate_file=str(folder / "tls.crt"), key_file=str(folder / "tls.key"))


@pytest.mark.parametrize("year", [2031, 2049, 2050, 2120])
def test_the_end_of_the_first_certificate_is_read_in_both_forms_of_a_time(year: int) -> None:
    assert expiry("a key may stand before it\n" + pem(ending(year)) + pem(ending(2030))) == at(year)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----",
    ],
)
def test_what_is_no_certificate_has_no_end(text: str) -> None:
    assert expiry(text) is None


@pytest.mark.parametrize("cut", range(40, 700, 30))
def test_half_a_certificate_is_no_error(cut: int) -> None:
    assert expiry(pem(ending(2031))[:cut] + "\n-----END CERTIFICATE-----\n") in {None, at(2031)}


def test_the_certificate_in_force_counts_also_after_a_renewal_and_while_files_are_half_written(tmp_path: Path) -> None:
    tls = ReloadingTls(write(ending(2031), tmp_path))
    assert tls.expires_at == at(2031)
    (tmp_path / "tls.crt").write_text(pem(ending(2032)))  # the key does not fit
    assert tls.expires_at == at(2031)
    write(ending(2033), tmp_path)
    assert tls.expires_at == at(2033)


# What is said of a pair that is of no use.


def test_a_good_pair_has_no_fault(tmp_path: Path) -> None:
    assert ReloadingTls(write(ending(2031), tmp_path)).fault(at(2030)) == ""


def test_a_certificate_that_ended_is_named_with_what_helps(tmp_path: Path) -> None:
    said = ReloadingTls(write(ending(2031), tmp_path)).fault(at(2031))
    assert f"TLS certificate {tmp_path / 'tls.crt'} ended on 2031-02-03 04:05 UTC" in said
    assert "`slurm-extender generate certificates`" in said


def test_authorities_that_all_ended_are_named(tmp_path: Path) -> None:
    tls = write(ending(2031), tmp_path).model_copy(update={"client_ca_file": str(tmp_path / "ca.crt")})
    (tmp_path / "ca.crt").write_text(pem(ending(2028)) + pem(ending(2029)))
    found = ReloadingTls(tls)
    assert found.fault(at(2028)) == ""
    assert f"every TLS client authority of {tmp_path / 'ca.crt'} ended on 2029-02-03" in found.fault(at(2029))


def test_a_pair_of_which_half_was_replaced_is_named_and_the_last_good_one_served(tmp_path: Path) -> None:
    tls = ReloadingTls(write(ending(2031), tmp_path))
    (tmp_path / "tls.key").write_bytes(ending(2032).private_key_pem.bytes())
    said = tls.fault(at(2030))
    assert said.startswith("the last valid pair is served: TLS certificate")
    assert "the key is not that of the certificate" in said
    write(ending(2032), tmp_path)
    assert tls.fault(at(2030)) == ""


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [("tls.crt", "-----BEGIN CERTIFICATE-----\nMIIB", "incomplete"), ("tls.key", "", "incomplete")],
)
def test_half_a_file_is_named_at_the_start(tmp_path: Path, file: str, text: str, said: str) -> None:
    tls = write(ending(2031), tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(TlsError, match=said):
        ReloadingTls(tls)
