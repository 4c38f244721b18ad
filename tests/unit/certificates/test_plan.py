"""Certificates are renewed before they end, and in no step does anybody meet one that it does not trust."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509 import verification

from extender.certificates.pair import (
    AUTHORITY_LIFE,
    LEAF_LIFE,
    PairError,
    Subject,
    bundle,
    is_authority,
    issue,
    new_authority,
    read,
    subject_of,
)
from extender.certificates.plan import (
    CERTIFICATE,
    KEY,
    NEXT_CERTIFICATE,
    NEXT_KEY,
    TRUSTED,
    Data,
    Terms,
    authority,
    leaf,
)
from extender.certificates.tls.expiry import expiry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
TERMS = Terms(NOW, overlap=DAY)
SERVER = Subject("slurm-extender", ("slurm-extender.slurm-extender.svc", "127.0.0.1"), server=True, client=True)
CLIENT = Subject("slurm-scheduler", client=True)
WANTED = {"server": SERVER, "client": CLIENT}
Site = Mapping[str, Data]
"""What is kept, by name; the authority under ""."""


def step(
    site: Site, now: datetime = NOW, *, renew: bool = False, everywhere: bool = True
) -> tuple[dict[str, Data], list[str]]:
    """One run, and what it said."""
    at = replace(TERMS, now=now, renew=renew, everywhere=everywhere)
    signs = authority(site.get("", {}), [site.get(name, {}) for name in WANTED], at)
    outcomes = {"": signs.outcome}
    outcomes |= {name: leaf(site.get(name, {}), subject, signs, at) for name, subject in WANTED.items()}
    return {name: one.data for name, one in outcomes.items()}, [said for one in outcomes.values() for said in one.done]


def served(site: Site, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(site[name][CERTIFICATE])


def meets(server: Data, client: Data, now: datetime) -> bool:
    """Whether the two take each other for who they are, as TLS does."""
    for shown, trusting, for_server in ((server, client, True), (client, server, False)):
        builder = verification.PolicyBuilder().store(verification.Store(bundle(trusting[TRUSTED]))).time(now)
        certificate = x509.load_pem_x509_certificate(shown[CERTIFICATE])
        try:
            if for_server:
                builder.build_server_verifier(x509.DNSName(SERVER.names[0])).verify(certificate, [])
            elif not any(trusted.subject == certificate.issuer for trusted in bundle(trusting[TRUSTED])):
                return False
            else:
                issuer = next(one for one in bundle(trusting[TRUSTED]) if one.subject == certificate.issuer)
                certificate.verify_directly_issued_by(issuer)
        except (verification.VerificationError, ValueError):
            return False
    return True


def test_the_first_run_makes_everything() -> None:
    site, said = step({})
    assert len(said) == 3
    assert is_authority(served(site, ""))
    assert subject_of(served(site, "server")) == SERVER
    assert subject_of(served(site, "client")) == CLIENT
    assert meets(site["server"], site["client"], NOW)
    for data in site.values():
        assert read(data[CERTIFICATE], data[KEY]).key.curve.name == "secp256r1"
        assert len(bundle(data[TRUSTED])) == 1
        assert b"PRIVATE" not in data[TRUSTED]


def test_what_was_made_is_what_the_process_reads() -> None:
    site, _ = step({})
    assert expiry(site["server"][CERTIFICATE].decode()) == (NOW + LEAF_LIFE).timestamp()
    context = ssl.create_default_context(cadata=site["server"][TRUSTED].decode())
    assert context.cert_store_stats()["x509_ca"] == 1


def test_a_run_with_nothing_to_do_changes_nothing() -> None:
    site, _ = step({})
    assert step(site, NOW + DAY) == (site, [])


def test_a_certificate_is_renewed_when_a_third_of_its_life_is_left() -> None:
    site, _ = step({})
    same, _ = step(site, NOW + LEAF_LIFE * 0.6)
    assert same == site
    later, said = step(site, NOW + LEAF_LIFE * 0.7)
    assert later[""] == site[""]
    assert served(later, "server").not_valid_after_utc == NOW + LEAF_LIFE * 1.7
    assert all("the stored certificate expires on 2026-04-01" in one for one in said)
    assert meets(later["server"], site["client"], NOW + LEAF_LIFE * 0.7)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (CERTIFICATE, b"", "the pair is incomplete: missing the certificate"),
        (KEY, b"", "the pair is incomplete: missing the key"),
        (CERTIFICATE, b"-----BEGIN CERTIFICATE-----\nAAAA", "the certificate cannot be read"),
        (KEY, b"-----BEGIN PRIVATE KEY-----\nAAAA", "the key cannot be read"),
    ],
)
def test_half_written_pairs_are_recreated(key: str, value: bytes, words: str) -> None:
    site, _ = step({})
    mended, [said] = step({**site, "server": {**site["server"], key: value}})
    assert words in said
    assert meets(mended["server"], mended["client"], NOW)


def test_the_key_of_another_certificate_is_seen() -> None:
    site, _ = step({})
    _, [said] = step({**site, "server": {**site["server"], KEY: site["client"][KEY]}})
    assert "the key is not that of the certificate" in said


def test_a_certificate_for_other_names_is_recreated() -> None:
    site, _ = step({})
    signs = read(site[""][CERTIFICATE], site[""][KEY])
    other = issue(signs, replace(SERVER, names=("old.svc",)), NOW)
    kept = {**site["server"], CERTIFICATE: other.certificate_pem, KEY: other.key_pem}
    mended, [said] = step({**site, "server": kept})
    assert "names slurm-extender (old.svc, server and client) instead of slurm-extender" in said
    assert subject_of(served(mended, "server")) == SERVER


def test_no_certificate_outlives_its_authority() -> None:
    signs = new_authority(NOW)
    assert issue(signs, CLIENT, signs.ends - DAY).ends == signs.ends


# A new authority.

DUE = NOW + AUTHORITY_LIFE * 0.7


def test_the_next_authority_is_trusted_everywhere_long_before_it_signs() -> None:
    before, _ = step({})
    before, _ = step(before, DUE)  # its certificates had ended long ago; now there is a next one as well
    assert len(bundle(before["server"][TRUSTED])) == 2
    signs = served(before, "")
    noted, said = step(before, DUE + DAY)
    assert any("is trusted everywhere" in one for one in said)
    assert served(noted, "") == signs
    waits, said = step(noted, DUE + DAY * 1.5)
    assert (waits, said) == (noted, [])
    after, said = step(noted, DUE + DAY * 2)
    assert "the next authority signs from now on" in said
    assert served(after, "") != signs
    assert after[""].keys() == {CERTIFICATE, KEY, TRUSTED}
    assert signs in bundle(after["client"][TRUSTED])


def test_in_every_step_old_and_new_certificates_trust_each_other() -> None:
    states = [step({})[0]]
    days = [0.0, 0.7 * AUTHORITY_LIFE.days]
    for days_later in (0, 1, 2, 3, 4):
        at = NOW + timedelta(days=days[1] + days_later)
        states.append(step(states[-1], at)[0])
        if days_later:
            old, new = states[-2:]
            assert meets(new["server"], old["client"], at)
            assert meets(old["server"], new["client"], at)


def test_a_run_that_was_cut_off_is_gone_on_with() -> None:
    site, _ = step({})
    made, _ = step(site, DUE)
    cut_off = {**site, "": made[""]}  # the authority was written, those who trust it were not
    later, _ = step(cut_off, DUE + DAY * 30)
    assert later[""][NEXT_CERTIFICATE] == made[""][NEXT_CERTIFICATE]
    assert served(later, "") == served(site, "")
    assert later["client"][TRUSTED] == made[""][TRUSTED]
    noted, _ = step(later, DUE + DAY * 31)
    assert served(noted, "") == served(site, "")
    after, _ = step(noted, DUE + DAY * 32)
    assert served(after, "") != served(site, "")


def test_who_reads_authorities_only_at_its_start_is_waited_for() -> None:
    site, _ = step(step({})[0], DUE)
    for days_later in (1, 2, 3):
        waiting, said = step(site, DUE + days_later * DAY, everywhere=False)
        assert (waiting, said) == (site, [])


def test_an_authority_that_was_lost_is_replaced_at_once() -> None:
    site, _ = step({})
    after, said = step({**site, "": {**site[""], KEY: b""}})
    assert "a new authority: the pair is incomplete: missing the key" in said
    assert served(site, "") in bundle(after["client"][TRUSTED])
    assert meets(after["server"], after["client"], NOW)


def test_an_authority_that_ended_gives_way_to_the_next_one() -> None:
    site, _ = step({}, renew=True)
    site, _ = step(site, NOW, renew=True)
    long_after = NOW + AUTHORITY_LIFE * 0.99
    fresh = new_authority(long_after)
    kept = {**site[""], NEXT_CERTIFICATE: fresh.certificate_pem, NEXT_KEY: fresh.key_pem}
    after, _ = step({**site, "": kept}, NOW + AUTHORITY_LIFE + DAY)
    assert served(after, "") == fresh.certificate
    assert bundle(after["client"][TRUSTED]) == [fresh.certificate]


def test_renewal_on_request_changes_every_key() -> None:
    site, _ = step({})
    after, said = step(site, renew=True)
    assert all(after[name][KEY] != site[name][KEY] for name in WANTED)
    assert NEXT_CERTIFICATE in after[""]
    assert meets(after["server"], site["client"], NOW)
    assert len(said) == 5


def test_a_leaf_is_no_authority() -> None:
    site, _ = step({})
    posing = {CERTIFICATE: site["client"][CERTIFICATE], KEY: site["client"][KEY]}
    _, said = step({**site, "": posing})
    assert "a new authority: the stored certificate is not an authority" in said


def test_a_key_of_another_kind_is_refused() -> None:
    with pytest.raises(PairError, match="the pair is incomplete"):
        read(b" ", b"x")


def test_an_authority_of_the_future_changes_nothing_and_is_said() -> None:
    made, _ = step({}, NOW + DAY)
    with pytest.raises(PairError, match=r"valid from 2026-01-01 23:55 UTC on, and here it is 2026-01-01 00:00"):
        step(made)


def test_a_next_authority_of_the_future_does_not_take_the_place_of_one_that_is_lost() -> None:
    renewed, _ = step(step({})[0], NOW + DAY * 2, renew=True)
    lost = {**renewed, "": {**renewed[""], KEY: b""}}
    later, _ = step(lost, NOW + DAY)
    assert step(later, NOW + DAY) == (later, [])
