"""Define the errors of this package.

::

    SlurmError                          every error of this package
    ├── TransportError                  no complete answer came; the request changed nothing (it only read)
    │   └── ConnectError                no connection to any address: not sent
    ├── ControllerUnavailableError      slurmrestd answered that slurmctld did not
    │   └── ControllerUnreachedError    and that slurmctld did not receive the request
    ├── OutcomeUnknownError             a change was sent and no answer shows whether it was executed
    ├── AuthenticationError             the token is missing or was refused
    ├── CapacityError                   not now; the same request may succeed later
    │   └── QueueFullError              slurmctld holds as many job records as MaxJobCount allows
    ├── RefusedError                    never; the same request will be refused again
    │   └── InvalidRequestError         refused here, before anything was sent (also a ValueError)
    ├── NotFoundError                   Slurm reports that the job, node, partition or reservation does not exist
    ├── UnsupportedError                this Slurm, or this API version of it, has no such feature
    └── ProtocolError                   the answer could not be understood

`classification.py` chooses the class from Slurm's error number, `retry.py` decides from the class what is sent
again.
"""

from __future__ import annotations

from typing import ClassVar


class SlurmError(Exception):
    """Base of all errors of this package.

    Attributes:
        endpoint: method and path of the request, e.g. `POST /slurm/v0.0.45/job/submit`; empty if none was sent.
        http_status: status of the reply, None if there was none.
        slurm_errno: Slurm's error number (slurm_errno.h; -1 is "unspecified"), None if the reply had none.
        description: the text of Slurm.
        source: the function of Slurm that reported it.
    """

    def __init__(
        self,
        message: str,
        *,
        endpoint: str = "",
        http_status: int | None = None,
        slurm_errno: int | None = None,
        description: str = "",
        source: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.endpoint = endpoint
        self.http_status = http_status
        self.slurm_errno = slurm_errno
        self.description = description
        self.source = source

    def __str__(self) -> str:
        facts = []
        if self.http_status is not None:
            facts.append(f"HTTP {self.http_status}")
        if self.slurm_errno is not None:
            facts.append(f"Slurm error {self.slurm_errno}")
        if self.source:
            facts.append(f"from {self.source}")
        text = f"{self.endpoint}: {self.message}" if self.endpoint else self.message
        if self.description and self.description not in text:
            text = f"{text}: {self.description}"
        return f"{text} ({', '.join(facts)})" if facts else text


class TransportError(SlurmError):
    """No complete answer came to a request that only reads: reset, time-out, or an answer that is not HTTP."""


class ConnectError(TransportError):
    """No address could be connected to: the request was not sent."""


class ControllerUnavailableError(SlurmError):
    """slurmrestd answers, but slurmctld does not: it is down, restarting, or too slow.

    The request only read, or set something to a value (cancel, update, drain): sending it again later does no harm.

    Attributes:
        surely_not_done: slurmctld cannot have received the request.
    """

    surely_not_done: ClassVar[bool] = False


class ControllerUnreachedError(ControllerUnavailableError):
    """slurmctld cannot have received the request: no connection, a standby, or a rate limit."""

    surely_not_done = True


class OutcomeUnknownError(SlurmError):
    """A change was sent, and no answer shows whether slurmctld executed it. Check before sending it again."""


class AuthenticationError(SlurmError):
    """The token was refused, also after it had been renewed once, or there is none."""


class CapacityError(SlurmError):
    """Slurm cannot do this now (nodes busy, priority, limits), but perhaps later. Nothing was queued."""


class QueueFullError(CapacityError):
    """slurmctld holds MaxJobCount job records, ended ones younger than MinJobAge included."""


class RefusedError(SlurmError):
    """Slurm refuses this request and will do so again."""


class InvalidRequestError(RefusedError, ValueError):
    """The request was refused by this package before anything was sent."""


class NotFoundError(SlurmError):
    """Slurm answered that it knows no such object."""


class UnsupportedError(SlurmError):
    """The negotiated API version, or the Slurm release behind it, lacks the requested feature."""


class ProtocolError(SlurmError):
    """The answer does not follow the interface of slurmrestd; no conclusion may be drawn from it."""
