"""The flags of SUNK's scheduler, from its Deployment or as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from extender.config.peers.plan import TOKEN_FILE, ImportPlan
from extender.config.peers.sunk_users import as_in_sunk
from extender.config.sunk import SUNK_FLAGS, from_flags

KNOWN = frozenset(flag.name for flag in SUNK_FLAGS)
SWITCHES = frozenset({"v", "help", "leader-elect", "zap-devel"})
"""Flags that may stand alone."""

SLURMCTLD_PORT, SLURMRESTD_PORT = 6817, 6820


def are_flags(words: Iterable[str]) -> bool:
    """Some of them are flags of SUNK's scheduler."""
    return any(name in KNOWN for name, _ in pairs(list(words)))


def take_flags(words: list[str], plan: ImportPlan) -> None:
    """Take over what the flags say."""
    for name, text in pairs(words):
        source = f"--{name}"
        if name not in KNOWN:
            plan.note(source, "no flag of SUNK's scheduler that is known here")
        elif name == "slurm-auth-token":
            plan.note(source, f"a token belongs in a Secret: put it where slurm.tokenFile says ({TOKEN_FILE})")
        elif "$(" in text:
            plan.note(source, f"{text} comes from the environment of the container: give its value")
        elif name == "slurm-api-base":
            plan.put(("slurm", "addresses"), [_slurmrestd(text, plan)], source)
        else:
            found = from_flags({name: text})
            for fault in found.faults:
                plan.note(source, f"cannot be used: {fault}")
            for one in found.values:
                plan.put(one.path, one.value, source)
    as_in_sunk(plan)


def pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    """Name and text of each flag: `--name=text`, `--name text`."""
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word.strip("-") == "":
            continue
        name, equals, text = word.lstrip("-").partition("=")
        if not equals and name not in SWITCHES and left and not left[0].startswith("--"):
            text = left.pop(0)
        yield name, text


def _slurmrestd(text: str, plan: ImportPlan) -> str:
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        if parts.port != SLURMCTLD_PORT or not parts.hostname:
            return url
    except ValueError:
        return url
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    plan.note(
        "--slurm-api-base",
        f"{text} is slurmctld's own port; a slurmrestd is needed, and http://{host}:{SLURMRESTD_PORT} is a guess",
    )
    return f"http://{host}:{SLURMRESTD_PORT}"
