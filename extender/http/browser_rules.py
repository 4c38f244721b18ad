"""Keep web pages of other sites away from `/debug`, which has no authentication and is reached through a browser's
loopback interface.

A page of another site can point its own name at 127.0.0.1 (DNS rebinding): then the Host header has that name. It can
also send requests across sites: then browsers add `Origin` or `Sec-Fetch-Site`. Programs such as curl send neither.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Request

from extender.config.values import is_loopback

LONGEST_HOST = 300
"""Characters of a Host header that are read; a DNS name has at most 253."""

SAME_SITE = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site` of the console's own requests, and of an address that a user typed."""

Rule = Callable[[Request], Awaitable[None]]


class BrowserRefused(Exception):
    """The request may come from the page of another site; the text says which header says so."""


async def loopback_host(request: Request) -> None:
    """Refuse a request whose Host header is not the loopback interface. Raises BrowserRefused."""
    given = request.headers.get("host", "")[:LONGEST_HOST]
    if not is_loopback(_without_port(given)):
        raise BrowserRefused(
            f"the Host header is {given!a}, and must be localhost, 127.0.0.1 or [::1]; use `kubectl slurm ui` or "
            "`kubectl port-forward`"
        )


async def same_site(request: Request) -> None:
    """Refuse a request that a page of another site sends. Raises BrowserRefused."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in SAME_SITE:
        raise BrowserRefused(f"Sec-Fetch-Site is {site[:20]!a}: pages of other sites may not read this")
    host = request.headers.get("host", "")[:LONGEST_HOST]
    if origin is not None and origin not in {f"http://{host}", f"https://{host}"}:
        raise BrowserRefused(f"Origin is {origin[:LONGEST_HOST]!a}: pages of other sites may not read this")


async def no_browser(request: Request) -> None:
    """Refuse a request of any browser. Raises BrowserRefused."""
    for name in ("origin", "sec-fetch-site"):
        if name in request.headers:
            raise BrowserRefused(f"the header {name} says that a browser sends this; use `curl --request PUT`")


def _without_port(given: str) -> str:
    """Return the host of `host`, `host:port` or `[ipv6]:port`."""
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.partition(":")[0]
