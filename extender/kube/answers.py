"""Limit the answers of the API server, and follow no redirect.

The server at the address of an API server decides how long its answers are. Each is read up to a limit; a longer one is
an error, and its connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import aiohttp

from extender.kube.errors import AnswerTooLong, ApiError, ApiUnavailable, OutcomeUnknown, Silent

REDIRECTS = range(300, 400)
"""Statuses. An API server sends none of them for the paths that are used here, since no request is conditional."""

_LONGEST_LOCATION = 200
"""Characters of the header Location that an error message quotes."""


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """Limit the bytes of one answer, of one page of a list, of one line of a watch, and of one message."""

    answer: int = 256 * 2**20
    page: int = 16 * 2**20
    """One object has less: JSON writes a character of etcd's 1.5 MiB with at most six bytes. Parsing takes up to 24
    times the bytes of a page."""

    line: int = 16 * 2**20
    """A line holds one object; etcd accepts objects of 1.5 MiB by default."""

    message: int = 16 * 2**20


BOUNDS = ResponseLimits()
"""The default limits."""


class TooLong(aiohttp.ClientError):
    """Report an answer above its limit."""


class Redirected(aiohttp.ClientError):
    """Report an answer that redirects to another address."""


def refuse_redirects(trace: aiohttp.TraceConfig) -> None:
    """Raise Redirected instead of following a redirect, also for a WebSocket. aiohttp closes the connection."""

    async def refuse(
        _session: aiohttp.ClientSession, _context: object, params: aiohttp.TraceRequestRedirectParams
    ) -> None:
        raise redirected(params.response)

    trace.on_request_redirect.append(refuse)


def redirected(response: aiohttp.ClientResponse) -> Redirected:
    """Return the error for an answer with a status of `REDIRECTS`."""
    location = response.headers.get("Location", "")[:_LONGEST_LOCATION]
    return Redirected(
        f"{response.url.origin()} answers {response.status}, a redirect to {location or 'nowhere'!r}, which is not "
        "followed; set the address of the API server itself"
    )


async def read_body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the whole body. Raises TooLong before it holds more than `most` bytes and one chunk."""
    if (response.content_length or 0) > most:
        raise _too_long(response, "answer", most)
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > most:
            raise _too_long(response, "answer", most)
        parts.append(part)
    return b"".join(parts)


async def read_lines(name: str, response: aiohttp.ClientResponse, silence_s: float, most: int) -> AsyncGenerator[bytes]:
    """Yield the lines of the body, independent of its chunks. A line of more than `most` bytes ends the stream."""
    rest: list[bytes] = []
    size = 0
    while True:
        try:
            async with asyncio.timeout(silence_s):
                chunk = await response.content.readany()
        except TimeoutError as error:
            raise Silent(f"{name}: nothing came for {silence_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ApiUnavailable(f"{name}: {text_of(error)}") from error
        if not chunk:
            return
        first, *others = chunk.split(b"\n")
        size += len(first)
        if size > most or any(len(line) > most for line in others):
            raise ApiUnavailable(f"{name}: {_too_long(response, 'line', most)}")
        rest.append(first)
        if not others:
            continue
        yield b"".join(rest)
        for line in others[:-1]:
            yield line
        rest, size = [others[-1]], len(others[-1])


def no_answer(method: str, text: str, error: BaseException | None = None) -> ApiError:
    """Return the error for a request without a complete answer, because of `error` if that is given."""
    if method != "GET":
        return OutcomeUnknown(text)
    return AnswerTooLong(text) if isinstance(error, TooLong) else ApiUnavailable(text)


def text_of(error: BaseException) -> str:
    """Return the text of an error, or its name if it has none."""
    return str(error) or type(error).__name__


def _too_long(response: aiohttp.ClientResponse, what: str, most: int) -> TooLong:
    return TooLong(
        f"the {what} of {response.url.origin()} has more than {most} bytes"
        + "; check that an API server answers at this address"
    )
