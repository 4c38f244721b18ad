"""The forms that the value of a setting may have: what is allowed, and how it becomes a value.

Text that Slurm will store is checked for what slurmctld cannot store, never for truth: whether a partition exists is
Slurm's to say.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from extender.domain import quantity
from extender.domain.gangs.readers import LONGEST_NAME, read_name
from extender.domain.jobs.job import Exclusive
from extender.domain.translation.hostnames import expand

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

TEXT_LIMIT = 1023
"""Bytes. slurmctld refuses a name, a comment or an `extra` longer than 1024 with error 2012; one is kept in reserve."""

LARGEST_GANG = 2**16 - 1
"""Members of a gang that can be written; the site bounds it further."""

UINT32_LARGEST = 0xFFFFFFFD
"""Slurm keeps these numbers in 32 bits and takes the two above for "infinite" and "not set" (`slurm.h` NO_VAL)."""

INT32_LARGEST = 2**31 - 1

NICE_LARGEST = 2**31 - 3
"""`slurm.h` NICE_OFFSET, less the reserved values."""


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """`read` turns text into a value and raises `ValueError` where it cannot; `allowed` ends "it must be ..."."""

    read: Callable[[str], T]
    allowed: str
    bounds: tuple[int, int] | None = None
    """Smallest and largest value of a form that is a whole number."""

    words: type[StrEnum] | None = None
    """The closed set of which the value is a member."""


class Unsent(StrEnum):
    """A value that means: send nothing, even where the site has a default."""

    AS_THE_PARTITION_SAYS = "false"


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in time: `seconds` since the epoch, or after the creation of the Pod where `relative`."""

    seconds: int
    relative: bool = False

    def at(self, created: float) -> int:
        """Return seconds since the epoch, for a Pod created at that time."""
        return int(created) + self.seconds if self.relative else self.seconds


def whole(least: int, most: int, what: str = "a whole number") -> Form[int]:
    """Return the form of a decimal integer within bounds."""

    def read(value: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]{1,20}", value, re.ASCII) and least <= int(value) <= most:
            return int(value)
        raise ValueError

    return Form(read, f"{what} from {least} to {most}", bounds=(least, most))


def word_of(members: type[E]) -> Form[E]:
    """Return the form of a member of a closed set."""
    return Form(lambda value: members(value.lower()), "one of " + ", ".join(members), words=members)


_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories that no text may have: control, format (among them those that turn the direction of writing
round, so that a reader sees another text than there is), half characters, and line breaks."""


def _line(value: str) -> str:
    if len(value.encode(errors="replace")) > TEXT_LIMIT or any(unicodedata.category(c) in _INVISIBLE for c in value):
        raise ValueError
    return value


def _matched(pattern: str) -> Callable[[str], str]:
    compiled = re.compile(pattern, re.ASCII)

    def read(value: str) -> str:
        if not compiled.fullmatch(_line(value)):
            raise ValueError
        return value

    return read


def _dependency(value: str) -> str:
    # A job that expands another one hands its nodes over to that one, and has none for the Pod.
    if any(part.lower().startswith("expand") for part in re.split(r"[,?]", _matched(r"\S+")(value))):
        raise ValueError
    return value


def _sized(rounded_up: Callable[[int], int]) -> Callable[[str], int]:
    def read(value: str) -> int:
        size = rounded_up(quantity.parse(value))
        if not 1 <= size <= INT32_LARGEST:
            raise ValueError
        return size

    return read


def _sharing(value: str) -> Exclusive | Unsent:
    # The booleans are slurm-bridge's, and those of SUNK before 5.7.
    lower = value.lower()
    if lower in {"true", "t", "1", "node"}:
        return Exclusive.NONE
    if lower in {"false", "f", "0"}:
        return Unsent.AS_THE_PARTITION_SAYS
    return Exclusive(lower)


def _person(value: str) -> str:
    if re.fullmatch(r"[0-9]{1,10}", value, re.ASCII) and int(value) <= UINT32_LARGEST:
        return str(int(value))
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.@\\-]{0,254}\$?", value, re.ASCII):
        return value
    raise ValueError


_GRES = re.compile(r"[A-Za-z][\w.-]*(?::(?=[\w.-]*[A-Za-z])[\w.-]+)?(?:[:=][0-9]+[KMGTPkmgtp]?)?", re.ASCII)


def _gres(value: str) -> str:
    # slurmrestd answers 2115 to a TRES without its `gres/`, and `--gres` is usually written without it.
    items = [re.sub(r"^gres[/:]", "", item.strip()) for item in _line(value).split(",")]
    if not all(_GRES.fullmatch(item) for item in items):
        raise ValueError
    return ",".join(f"gres/{item}" for item in items)


_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def _instant(value: str) -> Instant:
    if re.fullmatch(r"[0-9]{1,10}", value, re.ASCII):
        return Instant(int(value))
    if found := re.fullmatch(r"now(?:\+([0-9]{1,9})(second|minute|hour|day|week)?s?)?", value, re.ASCII):
        return Instant(int(found[1] or 0) * _SECONDS[found[2] or "second"], relative=True)
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None or moment.timestamp() < 0:
        raise ValueError
    return Instant(int(moment.timestamp()))


_DAYS = re.compile(r"([0-9]{1,7})-([0-9]{1,7})(?::([0-9]{1,7}))?(?::([0-9]{1,7}))?", re.ASCII)
_CLOCK = re.compile(r"([0-9]{1,7}):([0-9]{1,7})(?::([0-9]{1,7}))?", re.ASCII)
_UNITS = re.compile(r"(?=[0-9])(?:([0-9]{1,7})d)?(?:([0-9]{1,7})h)?(?:([0-9]{1,10})m)?(?:([0-9]{1,10})s)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Switches:
    """At most so many leaf switches; after `wait_s` seconds in the queue any nodes do. `None`: never."""

    count: int
    wait_s: int | None = None


def _switches(value: str) -> Switches:
    count, separator, wait = value.partition("@")
    return Switches(COUNT.read(count), _seconds(wait) if separator else None)


def _minutes(value: str) -> int:
    """Read a time limit as `sbatch --time` does (man sbatch), or with units; seconds are rounded up to minutes."""
    return -(-_seconds(value) // 60)


def _seconds(value: str) -> int:
    """Read a time as `sbatch` does, or with units; at most as many minutes as Slurm can store."""
    if re.fullmatch(r"\+?[0-9]{1,20}", value, re.ASCII):
        seconds = int(value) * 60
    else:
        if found := _DAYS.fullmatch(value):
            days, hours, rest, seconds = (int(part or 0) for part in found.groups())
        elif found := _CLOCK.fullmatch(value):
            parts = [int(part) for part in found.groups() if part is not None]
            days, (hours, rest, seconds) = 0, parts if len(parts) == 3 else (0, *parts)
        elif found := _UNITS.fullmatch(value):
            days, hours, rest, seconds = (int(part or 0) for part in found.groups())
        else:
            raise ValueError
        seconds = ((days * 24 + hours) * 60 + rest) * 60 + seconds
    if not 1 <= seconds <= INT32_LARGEST * 60:
        raise ValueError
    return seconds


LINE = Form(_line, f"one line of text without invisible characters, at most {TEXT_LIMIT} bytes")
WORD = Form(_matched(r"\S+"), f"text without white space, at most {TEXT_LIMIT} bytes")
DEPENDENCY = Form(
    _dependency, f"text without white space, at most {TEXT_LIMIT} bytes, and no dependency of the kind expand"
)
WORDS = Form(
    _matched(r"[^\s,]+(,[^\s,]+)*"), f"names separated by commas, without white space, at most {TEXT_LIMIT} bytes"
)
PATH = Form(_matched(r"/.*"), f"an absolute path, at most {TEXT_LIMIT} bytes")
TYPE = Form(_matched(r"\w[\w.-]*"), "one word of letters, digits and _ . -")
COUNT = whole(1, INT32_LARGEST)
MINUTES = Form(
    _minutes,
    f"minutes from 1 to {INT32_LARGEST}, or a time such as 1-12:00:00 (days-hours:minutes:seconds), 12:00:00 "
    "(hours:minutes:seconds), 90m, 24h or 1d12h",
    bounds=(1, INT32_LARGEST),
)
SWITCHES = Form(
    _switches, f"a number from 1 to {INT32_LARGEST}, or with the longest wait for them, such as 1@30 (minutes) or 1@2h"
)
CPUS = Form(_sized(quantity.cpus_up), "a Kubernetes quantity of CPUs above 0, such as 4 or 1500m")
MEBIBYTES = Form(_sized(quantity.mebibytes_up), "a Kubernetes quantity of bytes above 0, such as 16Gi or 500M")
NODES = Form(
    lambda value: tuple(sorted(set(expand(value)))),
    "Slurm node names or hostlists such as node-[1-4], separated by commas",
)
SHARING: Form[Exclusive | Unsent] = Form(
    _sharing, "one of " + ", ".join(Exclusive) + ", node, true, false", words=Exclusive
)
PERSON = Form(_person, f"a number from 0 to {UINT32_LARGEST}, or a name that the site knows")
GRES = Form(_gres, "GRES such as gpu:2, gpu:a100:2 or gres/gpu:a100:2, separated by commas")
GANG = Form(read_name, f"1 to {LONGEST_NAME} letters, digits and - _ . /")
GANG_SIZE = whole(1, LARGEST_GANG)
INSTANT = Form(
    _instant,
    "seconds since the epoch, a time with its zone such as 2030-01-31T08:00:00Z, "
    "or now+<count>[seconds|minutes|hours|days|weeks]",
)
SECONDS_AS_MINUTES = Form(
    lambda value: -(-whole(1, INT32_LARGEST).read(value) // 60),
    f"a whole number of seconds from 1 to {INT32_LARGEST}",
)
