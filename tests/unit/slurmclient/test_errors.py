from __future__ import annotations

import re

import pytest

import slurmclient
from slurmclient import (
    AuthenticationError,
    CapacityError,
    ControllerUnavailableError,
    ControllerUnreachedError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    ProtocolError,
    QueueFullError,
    RefusedError,
    SlurmError,
    TransportError,
    UnsupportedError,
    errors,
)
from slurmclient.classification import Effect, error_for

CLASSES = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, SlurmError)]


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    drawn: dict[str, str | None] = {}
    stack: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    ([│├└─ ]*)([A-Z]\w+Error)\b", line)
        if found:
            depth = len(found[1])
            stack = [entry for entry in stack if entry[0] < depth]
            drawn[found[2]] = stack[-1][1] if stack else None
            stack.append((depth, found[2]))
    real = {one.__name__: one.__bases__[0].__name__ if one is not SlurmError else None for one in CLASSES}
    assert drawn == real


def test_every_error_is_public() -> None:
    assert {one.__name__ for one in CLASSES} <= set(slurmclient.__all__)


def test_an_error_says_what_where_and_with_which_number() -> None:
    error = RefusedError(
        "Slurm refused the request",
        endpoint="POST /slurm/v0.0.45/job/submit",
        http_status=422,
        slurm_errno=2000,
        description="Invalid partition name specified",
        source="slurm_submit_batch_job()",
    )
    assert str(error) == (
        "POST /slurm/v0.0.45/job/submit: Slurm refused the request: Invalid partition name specified "
        "(HTTP 422, Slurm error 2000, from slurm_submit_batch_job())"
    )


def test_an_error_from_here_is_only_its_message() -> None:
    assert str(InvalidRequestError("job id 0")) == "job id 0"


def test_a_request_refused_here_is_a_value_error_and_a_refusal() -> None:
    assert issubclass(InvalidRequestError, ValueError)
    assert issubclass(InvalidRequestError, RefusedError)


READ, CHANGE, CREATE = Effect.READ, Effect.CHANGE, Effect.CREATE


@pytest.mark.parametrize(
    ("number", "status", "effect", "kind"),
    [
        (1800, 502, READ, ControllerUnreachedError),
        (1800, 502, CREATE, ControllerUnreachedError),
        (1001, 500, CHANGE, ControllerUnreachedError),
        (1805, 500, CREATE, ControllerUnreachedError),
        (2027, 500, CREATE, ControllerUnreachedError),
        (2131, 500, READ, ControllerUnreachedError),
        (1802, 500, READ, ControllerUnavailableError),
        (5004, 504, READ, ControllerUnavailableError),
        (5004, 504, CREATE, OutcomeUnknownError),
        (5004, 504, CHANGE, OutcomeUnknownError),
        (1801, 500, CREATE, OutcomeUnknownError),
        (5003, 500, CREATE, OutcomeUnknownError),
        (-1, 500, CREATE, OutcomeUnknownError),
        (1007, 511, READ, AuthenticationError),
        (1007, 511, CREATE, AuthenticationError),
        (6001, 500, READ, AuthenticationError),
        (2016, 500, CREATE, CapacityError),
        (2013, 422, CREATE, CapacityError),
        (2015, 500, CREATE, CapacityError),
        (2078, 500, CREATE, CapacityError),
        (2050, 500, CREATE, CapacityError),
        (2074, 500, CREATE, CapacityError),
        (2125, 500, CREATE, CapacityError),
        (11, 500, CREATE, QueueFullError),
        (2007, 422, CREATE, QueueFullError),
        (2017, 404, READ, NotFoundError),
        (7000, 502, READ, UnsupportedError),
        (2000, 422, CREATE, RefusedError),
        (2002, 500, CHANGE, RefusedError),
        (2010, 500, CHANGE, RefusedError),
        (2014, 500, CREATE, RefusedError),
        (2018, 500, CREATE, RefusedError),
        (2053, 500, CREATE, RefusedError),
        (2115, 500, CREATE, RefusedError),
        (9202, 500, CREATE, RefusedError),
        (None, 401, READ, AuthenticationError),
        (0, 511, READ, AuthenticationError),
        (None, 502, READ, ControllerUnavailableError),
        (None, 503, CREATE, OutcomeUnknownError),
        (None, 504, CHANGE, OutcomeUnknownError),
        (None, 500, CREATE, OutcomeUnknownError),
        (None, 500, READ, ProtocolError),
        (None, 404, READ, ProtocolError),
        (None, 422, CREATE, RefusedError),
    ],
)
def test_the_number_then_the_status_decides_the_class(
    number: int | None, status: int, effect: Effect, kind: type[SlurmError]
) -> None:
    error = error_for(number, status, effect, endpoint="X /y")
    assert type(error) is kind
    assert (error.slurm_errno, error.http_status) == (number, status)


def test_a_gateway_that_is_not_slurmrestd_is_a_transport_matter() -> None:
    assert type(error_for(None, 502, READ, endpoint="", spoken=False)) is TransportError


def test_an_unknown_node_is_missing_where_a_node_was_requested() -> None:
    assert type(error_for(2018, 500, CHANGE, endpoint="", not_found=frozenset({2018}))) is NotFoundError


def test_only_a_request_that_slurmctld_never_saw_is_surely_not_done() -> None:
    assert ControllerUnreachedError("x").surely_not_done
    assert not ControllerUnavailableError("x").surely_not_done
