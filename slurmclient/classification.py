"""Map the error number of a reply to an error class.

Numbers are those of `slurm/slurm_errno.h`, stable from 23.11 to 26.05 but for a few reused slots; texts are not
stable and are not compared. HTTP statuses differ between releases (a refusal is 500 up to 25.11 and 422 from
26.05), so they decide only where there is no number.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from slurmclient.errors import (
    AuthenticationError,
    CapacityError,
    ControllerUnavailableError,
    ControllerUnreachedError,
    NotFoundError,
    OutcomeUnknownError,
    ProtocolError,
    QueueFullError,
    RefusedError,
    SlurmError,
    TransportError,
    UnsupportedError,
)


class Effect(Enum):
    """Classify the effect of a request: it decides what a missing answer means, and whether the request is repeated."""

    READ = auto()
    """Changes nothing (the probe by name included): may be repeated without harm."""
    CHANGE = auto()
    """Sets something to a value (cancel, update, drain): a repetition has the same result, but is not automatic."""
    CREATE = auto()
    """Makes something new (a job, a node): a repetition makes a second one."""


# What requests fail with while slurmctld is down, on some releases and calls: slurmrestd's "unspecified error"
# (reads), EPERM (DELETE /jobs), "unexpected message" (job updates). The same numbers can mean a refusal, so a ping
# has to decide.
AMBIGUOUS: Final = frozenset({-1, 1, 1000})

_UNREACHED: Final = {
    1001: "slurmctld could not be connected to",
    1019: "slurmctld rejected the connection",
    1020: "slurmctld is quiescing",
    1021: "connecting to slurmctld took too long",
    1025: "slurmctld is shutting down",
    1800: "slurmctld could not be connected to",
    1804: "slurmctld asked for a pause",
    1805: "slurmctld dropped the request because of its rate limit",
    2027: "this slurmctld is standing by",
    2131: "this slurmctld is standing by",
}

_LOST: Final = {
    1002: "the request to slurmctld could not be sent completely",
    1003: "slurmctld's answer was not received",
    1004: "the connection to slurmctld broke",
    1022: "writing to slurmctld took too long",
    1023: "slurmctld did not answer in time",
    1801: "the request to slurmctld could not be sent completely",
    1802: "slurmctld's answer was not received",
    1803: "the connection to slurmctld broke",
    5003: "slurmctld's answer was cut short",
    5004: "slurmctld did not answer in time",
    5005: "the request to slurmctld could not be sent",
}

_AUTHENTICATION: Final = {
    1007: "the token was refused",
    6000: "the credential is invalid",
    6001: "the credential has expired",
    9008: "slurmrestd refused the credential",
}

_CAPACITY: Final = {
    2013: "a job of higher priority waits in the partition",
    2015: "the partition cannot run this now",
    2016: "the nodes are busy",
    2035: "the free resources are fragmented",
    2040: "the licenses are taken",
    2050: "a limit of the association or QOS is reached",
    2056: "the reservation is not usable now",
    2068: "a required node is not available",
    2070: "the partition is not available",
    2074: "a limit of the QOS is reached",
    2078: "it cannot start at once",
    2101: "the partition is down",
    2120: "a reboot is in progress",
    2125: "slurmctld defers scheduling",
    2179: "it would have to preempt",
}

_QUEUE_FULL: Final = {
    11: "slurmctld holds as many jobs as MaxJobCount allows",  # EAGAIN, up to 25.11
    2007: "slurmctld holds as many jobs as MaxJobCount allows",  # from 26.05
}

_NOT_FOUND: Final = {2017: "no such job"}

_UNSUPPORTED: Final = {
    2036: "this Slurm does not support it",
    2037: "it is switched off in this Slurm",
    7000: "slurmdbd is not there",
    7008: "slurmdbd is not there",
}


def error_for(
    number: int | None,
    status: int,
    effect: Effect,
    *,
    endpoint: str,
    description: str = "",
    source: str = "",
    spoken: bool = True,
    not_found: frozenset[int] = frozenset(),
) -> SlurmError:
    """Return the error for a reply. Numbers in :data:`AMBIGUOUS` count as refusals: ping first.

    Args:
        number: Slurm's error number; None or 0 if the reply had none.
        status: HTTP status of the reply.
        effect: what the request would have done.
        endpoint: method and path, for the message.
        description: the text of Slurm.
        source: the function of Slurm.
        spoken: the reply comes from slurmrestd, not from a proxy.
        not_found: numbers that mean "no such object" for this request alone, e.g. 2018 where a node was asked for.
    """
    kind, message = _by_number(number, effect, not_found) if number else _by_status(status, effect, spoken)
    return kind(
        message,
        endpoint=endpoint,
        http_status=status,
        slurm_errno=number,
        description=description,
        source=source,
    )


def _by_number(number: int, effect: Effect, not_found: frozenset[int]) -> tuple[type[SlurmError], str]:
    if number in not_found:
        return NotFoundError, "no such object"
    if number in _LOST and effect is not Effect.READ:
        return OutcomeUnknownError, f"{_LOST[number]}, and the request may have been carried out"
    if number == -1 and effect is Effect.CREATE:
        return OutcomeUnknownError, "Slurm named no cause, and the request may have been carried out"
    for table, kind in _KINDS:
        if number in table:
            return kind, table[number]
    return RefusedError, "Slurm refused the request"


_KINDS: Final[tuple[tuple[dict[int, str], type[SlurmError]], ...]] = (
    (_UNREACHED, ControllerUnreachedError),
    (_LOST, ControllerUnavailableError),
    (_AUTHENTICATION, AuthenticationError),
    (_CAPACITY, CapacityError),
    (_QUEUE_FULL, QueueFullError),
    (_NOT_FOUND, NotFoundError),
    (_UNSUPPORTED, UnsupportedError),
)


GATEWAY_ERRORS = frozenset({502, 503, 504})
"""Statuses of slurmrestd without slurmctld, and of a proxy without slurmrestd."""


def _by_status(status: int, effect: Effect, spoken: bool) -> tuple[type[SlurmError], str]:
    if status in (401, 511):
        return AuthenticationError, "the token was refused"
    if status == 404:
        # Slurm says "no such job" with a number. A bare 404 may come from anything in between, and must not look
        # like an end.
        return ProtocolError, "404 without an error number of Slurm does not prove that the object is gone"
    if status in GATEWAY_ERRORS:
        # A proxy in front of slurmrestd answers so too, before or after it passed the request on.
        if effect is Effect.READ and spoken:
            # GET /partitions gives no number while slurmctld is down.
            return ControllerUnavailableError, "slurmctld did not answer slurmrestd"
        if effect is Effect.READ:
            return TransportError, "slurmrestd or a proxy before it is not available"
        return OutcomeUnknownError, "slurmrestd or a proxy before it gave up, and the request may have been carried out"
    if status >= 500 and effect is Effect.CREATE:
        return (
            OutcomeUnknownError,
            "slurmrestd failed without naming a cause, and the request may have been carried out",
        )
    if status >= 500:
        return ProtocolError, "slurmrestd failed without naming a cause"
    return RefusedError, "slurmrestd refused the request"
