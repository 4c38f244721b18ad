"""Define the outcomes of a request to the API server as exceptions.

ApiError (a ports.PortError)
 ├── ApiUnavailable      no answer, and nothing was changed: a read, or a request that never left
 │    ├── AnswerTooLong  an answer above its limit: a page with fewer objects may be below it
 │    └── Silent         a watch on which nothing came for too long: dead, or nothing happened
 ├── OutcomeUnknown      a write was sent and may or may not have been carried out
 └── ApiRefused          the API server rejected it, so nothing was changed: status code, reason, message
      ├── Invalid        400, 422
      ├── Unauthorized   401
      ├── Forbidden      403
      ├── NotFound       404
      ├── Conflict       409: a precondition does not hold, or the name is taken
      ├── Gone           410: the version or the page asked for is too old
      └── Throttled      429: later, please; also a disruption budget that is used up

The libraries below may change; nothing else in the project sees their exceptions, which are chained as causes.
"""

from __future__ import annotations

from extender.domain.ports import PortError
from extender.kube.wire.stream import Refusal


class ApiError(PortError):
    """The API server could not be asked, or did not do as asked."""


class ApiUnavailable(ApiError):
    """No answer, or none of use; nothing was changed. `code` is the 5xx that came, 0 where none did."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class AnswerTooLong(ApiUnavailable):
    """The answer to a read has more bytes than its limit."""


class Silent(ApiUnavailable):
    """A watch received no data for too long."""


class OutcomeUnknown(ApiError):
    """A write was sent and its answer is not known."""


class ApiRefused(ApiError):
    """The API server answered that it did not do as asked."""

    def __init__(self, request: str, refusal: Refusal) -> None:
        why = refusal.message or "no reason given"
        super().__init__(f"{request}: {refusal.code} {refusal.reason or 'refused'}: {why}")
        self.code = refusal.code
        self.reason = refusal.reason
        self.message = refusal.message


class Invalid(ApiRefused):
    """400 or 422: the request is wrong in itself; sending it again is useless."""


class Unauthorized(ApiRefused):
    """401: the API server does not know the user."""


class Forbidden(ApiRefused):
    """403: the user is known and has no permission; or the namespace is being deleted."""


class NotFound(ApiRefused):
    """404: no such object, or no such kind of object."""


class Conflict(ApiRefused):
    """409: a precondition does not hold, or the name is taken (`reason` AlreadyExists)."""


class Gone(ApiRefused):
    """410: the resource version or the continue token is too old."""


class Throttled(ApiRefused):
    """429. `retry_after_s` is 0.0 where the API server did not say when."""

    def __init__(self, request: str, refusal: Refusal) -> None:
        super().__init__(request, refusal)
        self.retry_after_s = refusal.retry_after_s


_BY_CODE: dict[int, type[ApiRefused]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}


def refused(request: str, refusal: Refusal, *, write: bool) -> ApiError:
    """Return the error for a refusal.

    A 5xx says nothing sure about a write: a 504 is sent while the request may still be carried out, a 500 can come from
    a proxy in between.
    """
    if refusal.code >= 500:
        text = f"{request}: {refusal.code} {refusal.message or refusal.reason or 'server error'}"
        return OutcomeUnknown(text) if write else ApiUnavailable(text, refusal.code)
    return _BY_CODE.get(refusal.code, ApiRefused)(request, refusal)
