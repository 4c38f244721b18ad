"""Read the settings of slurm.conf from slurmrestd (26.05), `scontrol show config` or the file itself.

Names are compared without case, as in Slurm (`parse_config.c`). A setting that a file lacks has Slurm's default. The
other two show defaults too, so a setting that they lack is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

NOTHING = {"", "(null)", "n/a", "none"}
"""How Slurm shows a setting without a value."""

UNLIMITED = {"unlimited", "infinite", "infinity"}

_SHOWN = re.compile(r"\s*(\w+)(?:\[\d+\])?\s+=\s+(.*?)\s*$")
"""A line of `scontrol show config`: `KillWait                = 30 sec`, `Epilog[0]               = /x`."""

_NONE_SHOWN = dict.fromkeys(("epilog", "epilogslurmctld", "prologslurmctld"), "")
"""Lists: `scontrol show config` has a line for each member, and none for an empty list (26.05.5)."""

_RECORDS = ("nodename", "partitionname", "nodeset", "downnodes", "frontendname", "switchname", "blockname")
"""First words of the lines of slurm.conf that are no settings."""


@dataclass(frozen=True, slots=True)
class KnownSlurmConf:
    """The settings of one `source`. `complete`: a setting that is missing has Slurm's default."""

    values: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    complete: bool = False
    partition_modes: Mapping[str, str] = field(default_factory=dict)
    """PreemptMode by partition, for the partitions of a file that set it."""

    def get(self, name: str, default: str) -> str | None:
        """Return the value of a setting, "" for none, `None` if it is unknown. `default` is Slurm's."""
        found = self.values.get(name.lower(), default if self.complete else None)
        return "" if found is not None and found.lower() in NOTHING else found

    def number(self, name: str, default: int) -> int | None:
        """Return the value as a number without its unit; -1: no limit, `None`: it is unknown."""
        text = self.get(name, str(default))
        if text is None:
            return None
        if text.lower() in UNLIMITED:
            return -1
        found = re.match(r"\d+", text)
        return int(found[0]) if found else default

    def words(self, name: str, default: str = "") -> frozenset[str] | None:
        """Return the words of a list in upper case; `None`: it is unknown."""
        text = self.get(name, default)
        return None if text is None else frozenset(word.upper() for word in re.split(r"[,|\s]+", text) if word)

    def parameters(self, name: str) -> Mapping[str, str] | None:
        """Return `a=1,b` as a map with keys in lower case; `None`: it is unknown."""
        text = self.get(name, "")
        if text is None:
            return None
        pairs = (part.strip().partition("=") for part in text.split(",") if part.strip())
        return {key.strip().lower(): value.strip() for key, _, value in pairs}


def read_text(text: str, source: str) -> KnownSlurmConf:
    """Read a file or the output of `scontrol show config`. Other lines are ignored."""
    whole = "configuration data as of" in text.lower()
    if whole or not re.search(r"(?m)^\s*\w+=", text):
        shown = (found.groups() for line in text.splitlines() if (found := _SHOWN.match(line)))
        return KnownSlurmConf((_NONE_SHOWN if whole else {}) | _joined(shown), source)
    values: dict[str, str] = {}
    modes: dict[str, str] = {}
    for line in _written(text):
        pairs = dict(_pairs(line))
        first = next(iter(pairs), "")
        if first == "partitionname" and "preemptmode" in pairs:
            modes[pairs[first]] = pairs["preemptmode"]
        if first not in _RECORDS:
            values |= pairs
    # What a file lacks may be in a file that it includes.
    return KnownSlurmConf(values, source, complete=not re.search(r"(?im)^\s*include\s", text), partition_modes=modes)


def from_slurmrestd(raw: Mapping[str, object], source: str) -> KnownSlurmConf:
    """Read the answer to `GET /conf`."""
    return KnownSlurmConf(dict(_flat(raw)), source)


def _written(text: str) -> list[str]:
    """Return the lines with settings: without comments, continued lines joined."""
    whole = re.sub(r"\\\n", "", text)
    lines = (re.sub(r"(?<!\\)#.*", "", line).strip() for line in whole.splitlines())
    return [re.sub(r"^(\w+)\s*=\s*", r"\1=", line) for line in lines if re.match(r"\w+\s*=", line)]


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    for key, quoted, plain in re.findall(r'(\w+)=(?:"([^"]*)"|(\S*))', line):
        yield key.lower(), quoted or plain


def _joined(pairs: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """Join several values of one name (`Epilog[0]`, `Epilog[1]`) to a list."""
    values: dict[str, str] = {}
    for key, value in pairs:
        name = key.lower()
        values[name] = f"{values[name]},{value}" if name in values else value
    return values


def _flat(raw: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in raw.items():
        if isinstance(value, dict) and "set" in value:
            if value.get("infinite") is True:
                yield key.lower(), "UNLIMITED"
            elif value["set"] is True:
                yield key.lower(), str(value.get("number", ""))
            else:
                yield key.lower(), ""
        elif isinstance(value, dict):
            yield from _flat(value)
        elif isinstance(value, list):
            yield key.lower(), ",".join(str(one) for one in value)
        elif isinstance(value, bool):
            yield key.lower(), str(int(value))
        else:
            yield key.lower(), "" if value is None else str(value)
