"""Build the error responses of the API server."""

from __future__ import annotations

from typing import Any

from simulator.kube.objects import Json


class StatusError(Exception):
    """An answer with a Status. Reasons as in Kubernetes `apimachinery/pkg/apis/meta/v1/types.go`."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details

    def status(self) -> Json:
        """Return the body of the answer."""
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }
        return status | ({"details": self.details} if self.details else {})


def not_found(what: str, name: str) -> StatusError:
    """Return a 404."""
    return StatusError(404, "NotFound", f'{what} "{name}" not found')


def conflict(what: str, name: str, why: str) -> StatusError:
    """Return a 409."""
    return StatusError(409, "Conflict", f'Operation cannot be fulfilled on {what} "{name}": {why}')


def already_exists(what: str, name: str) -> StatusError:
    """Return a 409 of the other kind."""
    return StatusError(409, "AlreadyExists", f'{what} "{name}" already exists')


def invalid(kind: str, name: str, field: str, value: Any, why: str) -> StatusError:
    """Return a 422."""
    return StatusError(422, "Invalid", f'{kind} "{name}" is invalid: {field}: Invalid value: {value!r}: {why}')


def bad_request(why: str) -> StatusError:
    """Return a 400."""
    return StatusError(400, "BadRequest", why)


def expired(why: str) -> StatusError:
    """Return a 410."""
    return StatusError(410, "Expired", why)


def throttled(why: str, retry_after_s: int) -> StatusError:
    """Return a 429; 0: it does not say when to ask again."""
    return StatusError(429, "TooManyRequests", why, {"retryAfterSeconds": retry_after_s} if retry_after_s else None)
