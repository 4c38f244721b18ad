"""The token for slurmrestd: is there one, whose is it, until when, and what may it do?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extender.doctor.finding import Finding, ok, unseen, warning, wrong

CHECK = "token"

SOON_S = 900.0
"""A token that is not renewed by then is worth a word; `scontrol token` makes them for half an hour."""


@dataclass(frozen=True, slots=True)
class Token:
    """`source` is the key of the configuration that says where it comes from. `error`: there is none."""

    source: str
    error: str = ""
    elsewhere: bool = False
    """Its file is not on this machine, as on the laptop of an administrator."""

    owner: str = ""
    expires_at: float | None = None
    accepted: bool | None = None
    """slurmctld took it; `None`: it could not be asked."""

    refusal: str = ""
    operates: bool | None = None
    """It may change what belongs to others; `None`: that could not be found out."""


def token(given: Token, user: str, now: float, slurm_user: str = "") -> Iterator[Finding]:
    """`user` is slurm.user, `slurm_user` SlurmUser of slurm.conf where that was seen, `now` by slurmctld's clock."""
    where = f"slurm.{given.source}"
    if given.elsewhere:
        yield unseen(
            CHECK,
            f"{where}: {given.error}",
            "run `slurm-extender doctor` in the extender's Pod, or say where a token is here: "
            "--set slurm.tokenFile=FILE",
        )
        return
    if given.error:
        yield wrong(CHECK, f"{where}: {given.error}", "put the token there: `scontrol token username=slurm lifespan=…`")
        return
    yield from _expiry(given, where, now)
    if given.accepted is False:
        yield wrong(
            CHECK,
            f"{where}: Slurm refuses it: {given.refusal}",
            "make a new one with `scontrol token`; slurm.conf needs AuthAltTypes=auth/jwt, and jwt_key has to be the "
            "key that the token was made with",
        )
    elif given.accepted is None:
        yield unseen(CHECK, f"{where}: Slurm could not be asked about it: {given.refusal}", "mend slurmrestd first")
    else:
        yield from _rights(given, user, slurm_user)


def _expiry(given: Token, where: str, now: float) -> Iterator[Finding]:
    if given.expires_at is None or given.source == "jwtKeyFile":
        return
    left = given.expires_at - now
    if left <= 0:
        yield wrong(CHECK, f"{where}: it ran out {-left:.0f} s ago", "renew it, and see why nobody has")
    elif given.source == "token":
        yield warning(
            CHECK,
            f"{where}: it ends in {_long(left)}, and nobody renews it there",
            "use slurm.tokenFile and renew the file, or slurm.jwtKeyFile",
        )
    elif left < SOON_S:
        yield warning(
            CHECK, f"{where}: it ends in {_long(left)}", "see that it is renewed before: the file is read again"
        )


def _rights(given: Token, user: str, slurm_user: str) -> Iterator[Finding]:
    owner = given.owner or user
    if given.operates is None:
        yield unseen(
            CHECK,
            f"Slurm takes it; whether {user} may change nodes and jobs of others was not answered: {given.refusal}",
            f"`sacctmgr show user {user}` and SlurmUser in slurm.conf tell",
        )
    elif not given.operates:
        yield wrong(
            CHECK,
            f"Slurm takes it, and {user} may not change nodes and jobs of others",
            "set slurm.user to root or SlurmUser, and take a token of theirs: drains and cancels are refused otherwise",
        )
    elif slurm_user and user not in {"root", slurm_user}:
        yield warning(
            CHECK,
            f"{user} is an administrator, but neither root nor SlurmUser ({slurm_user})",
            f"set slurm.user to {slurm_user}: where slurmdbd is away Slurm does not know administrators",
        )
    else:
        as_whom = f"{user}" if owner == user else f"{user}, by the token of {owner}"
        yield ok(CHECK, f"Slurm takes it; {as_whom} may do what is needed")


def _long(seconds: float) -> str:
    return f"{seconds / 86400:.0f} days" if seconds > 2 * 86400 else f"{seconds / 60:.0f} min"
