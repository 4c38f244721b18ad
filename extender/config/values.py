"""The forms of single values: durations, addresses to listen at, addresses of slurmrestd, names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from extender.domain.translation.forms import INT32_LARGEST, MINUTES, Form

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

ALLOWED_BY_FORMAT = {
    "duration": "a duration such as 500ms, 30s, 1m30s or 2h, or a number of seconds",
    "bind-address": "host:port, [ipv6]:port or :port (every interface), with a port from 1 to 65535",
    "slurmrestd": "http://host:port, https://host:port or unix:///path",
    "web-address": "http://host[:port] or https://host[:port], a path may follow",
    "password": "text",
    "time-limit": "a number of minutes, or a time such as 1-12:00:00, 12:00:00, 90m or 24h",
    "missing-requests": "refuse, whole-node, or a map with the keys cpu and memory",
}
"""Allowed values by the `format` of a value's JSON schema; for faults and for the reference page."""


class Group(BaseModel):
    """A group of settings: immutable, unknown keys refused, keys in camelCase as everywhere in Kubernetes."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )


@dataclass(frozen=True, slots=True)
class BindAddress:
    """Address of a listener. Host "" is every interface, IPv4 and IPv6."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


LONGEST_DURATION = 64
"""Characters of a duration. The search for its parts goes back over digits that no unit follows."""


def read_duration(value: Any) -> float:
    """Return seconds, from a number of them or from text as Go's `time.ParseDuration` takes it (`1m30s`)."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError("is no duration")  # noqa: TRY004 - pydantic collects ValueErrors
    if not isinstance(value, str):
        if not 0 <= value < float("inf"):
            raise ValueError("is no duration: it must be 0 or more")
        return float(value)
    if len(value) > LONGEST_DURATION:
        raise ValueError(f"is no duration: it has {len(value)} characters, at most {LONGEST_DURATION} are allowed")
    parts = _PART.findall(value)
    if value == "0":
        return 0.0
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError("is no duration")
    return float(sum(float(number) * _UNIT_S[unit] for number, unit in parts))


def write_duration(seconds: float) -> str:
    """Return the shortest text that `read_duration` reads as `seconds`, to the millisecond."""
    left = round(seconds * 1000)
    if left == 0:
        return "0s"
    text = ""
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text


def read_time_limit(value: Any) -> int:
    """Return minutes, from a number of them or from text as the annotation `time-limit` takes it."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("is no time limit")  # noqa: TRY004 - pydantic collects ValueErrors
    try:
        return MINUTES.read(str(value))
    except ValueError as error:
        raise ValueError("is no time limit") from error


def is_loopback(host: str) -> bool:
    """Return whether a host, without its port, is the loopback interface."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_bind_address(value: Any) -> BindAddress:
    """Return `host:port`, `[ipv6]:port` or `:port`."""
    if isinstance(value, BindAddress):
        return value
    if not isinstance(value, str):
        raise ValueError("is no address to listen at")  # noqa: TRY004 - pydantic collects ValueErrors
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]/]*)):(\d{1,5})", value, re.ASCII)
    if not found or not 1 <= int(found[3]) <= 65535:
        raise ValueError("is no address to listen at")
    return BindAddress(found[1] or found[2] or "", int(found[3]))


def _check_slurmrestd(value: str) -> str:
    parts = _split(value)
    tcp = parts.scheme in {"http", "https"} and parts.hostname and not parts.query
    if not tcp and not (parts.scheme == "unix" and not parts.netloc and parts.path.startswith("/")):
        raise ValueError("is no address of slurmrestd")
    return value


def _check_web_address(value: str) -> str:
    parts = _split(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("is no web address")
    return value.rstrip("/")


def _split(value: str) -> Any:
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"is no address: {error}") from error
    if parts.scheme in {"http", "https"} and "@" in parts.netloc:
        raise ValueError("holds a user or a password, which every reader of the configuration would see")
    return parts


Duration = Annotated[
    float,
    BeforeValidator(read_duration),
    PlainSerializer(write_duration, return_type=str),
    WithJsonSchema({"type": ["string", "number"], "format": "duration"}),
]
"""Seconds."""

TimeLimit = Annotated[
    int,
    BeforeValidator(read_time_limit),
    WithJsonSchema({"type": ["integer", "string"], "format": "time-limit", "minimum": 1, "maximum": INT32_LARGEST}),
]
"""Minutes."""

Bind = Annotated[
    BindAddress,
    BeforeValidator(read_bind_address),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "format": "bind-address"}),
]

Text = Annotated[str, StringConstraints(min_length=1)]
"""Text that says something: where a key is optional it is left out, not emptied."""

SlurmAddress = Annotated[
    str, AfterValidator(_check_slurmrestd), WithJsonSchema({"type": "string", "format": "slurmrestd"})
]

WebAddress = Annotated[
    str, AfterValidator(_check_web_address), WithJsonSchema({"type": "string", "format": "web-address"})
]


def of_form(form: Form[Any]) -> AfterValidator:
    """Hold text to a form of the domain, and keep the text."""

    def check(value: str) -> str:
        try:
            form.read(value)
        except ValueError as error:
            raise ValueError(f"must be {form.allowed}") from error
        return value

    return AfterValidator(check)
