"""Decide which stored data must change so that every certificate is valid and trusted. Pure, except for new keys.

An authority is replaced in steps, since clients trust the next authority later than servers can be signed by it:

1. when a third of its validity is left, the next authority is created, and added to every bundle of authorities;
2. a run that finds both authorities in every bundle stores the time;
3. `overlap` later the next authority signs, and every certificate is issued again. The previous authority stays trusted
   until its end; its key is deleted.

Each step is derived from the stored data, so a run that was interrupted resumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509

from extender.certificates.pair import (
    Pair,
    PairError,
    Subject,
    bundle,
    is_authority,
    issue,
    new_authority,
    pem,
    read,
    subject_of,
)

Data = Mapping[str, bytes]

CERTIFICATE, KEY, TRUSTED = "tls.crt", "tls.key", "ca.crt"
"""As in Secrets of the type kubernetes.io/tls, and as cert-manager names authorities."""

NEXT_CERTIFICATE, NEXT_KEY, NEXT_SINCE = "next.crt", "next.key", "next-trusted-since"


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of the decision. `everywhere`: clients that read authorities at their start have the current ones."""

    now: datetime
    overlap: timedelta
    everywhere: bool = True
    renew: bool = False
    """Make every certificate again, and the next authority too if there is none."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The data to store, and a log of the changes."""

    data: Data
    done: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Authority:
    """The signing authority, and the trusted ones."""

    signs: Pair
    trusted: bytes
    outcome: Outcome = field(repr=False)


def authority(have: Data, leaves: Iterable[Data], terms: Terms) -> Authority:
    """Return the authority that signs, from the stored one and the Secrets that trust it.

    Raises PairError if the authority is not valid yet by this clock: clients would reject its certificates.
    """
    done: list[str] = []
    signs, fault = _authority_of(have, CERTIFICATE, KEY, terms.now)
    if signs is not None and signs.begins > terms.now:
        raise PairError(
            f"the authority is valid from {signs.begins:%F %H:%M} UTC on, and here it is {terms.now:%F %H:%M}: this "
            "clock or that of the machine that created it is wrong. Fix the clock; nothing was changed"
        )
    next_one, next_fault = _authority_of(have, NEXT_CERTIFICATE, NEXT_KEY, terms.now)
    since = _instant(have.get(NEXT_SINCE, b""))
    if signs is None:
        good = next_one is not None and next_one.begins <= terms.now
        signs, next_one, since = (next_one if good else None) or new_authority(terms.now), None, None
        done.append(f"a new authority: {fault}")
    elif next_one is None:
        since = None
        if signs.due(terms.now) or terms.renew:
            next_one = new_authority(terms.now)
            why = f"the signing authority expires on {signs.ends:%Y-%m-%d}" if signs.due(terms.now) else "requested"
            why = f"the stored next authority is not usable: {next_fault}" if have.get(NEXT_CERTIFICATE) else why
            done.append(f"the next authority, to be trusted before it signs: {why}")
    elif not (terms.everywhere and all(_trusts(one, next_one) for one in leaves)):
        since = None  # the bundles are written again, and the time counts from then
    elif since is None or since > terms.now:
        since = terms.now
        done.append(
            f"the next authority is trusted everywhere; it signs after {terms.now + terms.overlap:%F %H:%M} UTC"
        )
    elif since + terms.overlap <= terms.now:
        signs, next_one, since = next_one, None, None
        done.append("the next authority signs from now on")
    trusted = _trusted([signs, next_one], have.get(TRUSTED, b""), terms.now)
    data = {
        **{key: value for key, value in have.items() if key not in {NEXT_CERTIFICATE, NEXT_KEY, NEXT_SINCE}},
        CERTIFICATE: signs.certificate_pem,
        KEY: signs.key_pem,
        TRUSTED: trusted,
    }
    if next_one is not None:
        data |= {NEXT_CERTIFICATE: next_one.certificate_pem, NEXT_KEY: next_one.key_pem}
        data |= {NEXT_SINCE: since.isoformat().encode()} if since is not None else {}
    if data != have and not done:
        done.append("rewritten data, since some was missing or expired")
    return Authority(signs, trusted, Outcome(data, tuple(done)))


def leaf(have: Data, subject: Subject, signed_by: Authority, terms: Terms) -> Outcome:
    """Return the certificate of `subject`; a valid one stays."""
    done: list[str] = []
    data = dict(have)
    if why := "requested" if terms.renew else _fault(have, subject, signed_by.signs, terms.now):
        made = issue(signed_by.signs, subject, terms.now)
        data |= {CERTIFICATE: made.certificate_pem, KEY: made.key_pem}
        done.append(f"a new certificate, valid until {made.ends:%Y-%m-%d}: {why}")
    if have.get(TRUSTED) != signed_by.trusted:
        data[TRUSTED] = signed_by.trusted
        if have.get(TRUSTED):
            done.append("a new bundle of authorities")
    return Outcome(data, tuple(done))


def _fault(have: Data, subject: Subject, signs: Pair, now: datetime) -> str:
    """Return the fault of a stored certificate; "": none."""
    if not have.get(CERTIFICATE) and not have.get(KEY):
        return "no certificate is stored"
    try:
        pair = read(have.get(CERTIFICATE, b""), have.get(KEY, b""))
        last_subject = subject_of(pair.certificate)
    except PairError as error:
        return str(error)
    if not signs.signed(pair.certificate):
        return "the stored certificate is not signed by the current authority"
    if _unordered(last_subject) != _unordered(subject):
        return f"the stored certificate names {_words(last_subject)} instead of {_words(subject)}"
    if pair.due(now):
        return f"the stored certificate {'expired' if pair.ends <= now else 'expires'} on {pair.ends:%Y-%m-%d}"
    return "the stored certificate is not valid yet" if pair.begins > now else ""


def _authority_of(have: Data, certificate: str, key: str, now: datetime) -> tuple[Pair | None, str]:
    """Return the stored authority if it can sign, else the reason."""
    if not have.get(certificate) and not have.get(key):
        return None, "no authority is stored"
    try:
        found = read(have.get(certificate, b""), have.get(key, b""))
    except PairError as error:
        return None, str(error)
    if not is_authority(found.certificate):
        return None, "the stored certificate is not an authority"
    if found.ends <= now:
        return None, f"the stored authority expired on {found.ends:%Y-%m-%d}"
    return found, ""


def _trusts(have: Data, one: Pair) -> bool:
    return one.certificate in bundle(have.get(TRUSTED, b""))


def _trusted(pairs: Sequence[Pair | None], before: bytes, now: datetime) -> bytes:
    """Return the authorities that sign or will sign, and those that signed certificates still in use."""
    found: list[x509.Certificate] = [pair.certificate for pair in pairs if pair is not None]
    found += [one for one in bundle(before) if one not in found and is_authority(one) and one.not_valid_after_utc > now]
    return b"".join(pem(one) for one in found)


def _instant(text: bytes) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.decode("ascii"))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _unordered(subject: Subject) -> tuple[str, frozenset[str], bool, bool]:
    return subject.common_name, frozenset(subject.names), subject.server, subject.client


def _words(subject: Subject) -> str:
    uses = " and ".join(["server"] * subject.server + ["client"] * subject.client) or "no use"
    return f"{subject.common_name} ({', '.join([*sorted(subject.names), uses])})"
