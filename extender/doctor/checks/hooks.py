"""Can scripts on Slurm's nodes call the hooks?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from extender.doctor.finding import Finding, ok, unseen, warning, wrong

CHECK = "hooks"
PROBE = "probe"


@dataclass(frozen=True, slots=True)
class HooksAsConfigured:
    """What the configuration says; `answer` is what came from hooks.url here: a status, or "" and `error`."""

    bound: bool
    url: str = ""
    tls: bool = False
    key_file: bool = False
    site_key_file: bool = False
    answer: int = 0
    ours: bool = False
    """It is the hooks that answered."""

    error: str = ""


def hooks(given: HooksAsConfigured, *, fenced: bool = False) -> Iterator[Finding]:
    """What can be said without a node. `fenced`: slurm.conf has the fence script."""
    if not given.bound:
        yield warning(
            CHECK,
            "hooks.bind is not set: scripts call nobody, polls tell instead",
            "set hooks.bind and hooks.url: a script then holds its node until the Pod is gone",
        )
        return
    if not given.url:
        yield warning(
            CHECK, "hooks.url is not set: scripts call nobody", "the address of the hooks as Slurm's nodes reach them"
        )
        return
    parts = urlsplit(given.url)
    if (parts.scheme == "https") != given.tls and parts.port is not None:
        served = "https" if given.tls else "http"
        yield warning(
            CHECK,
            f"hooks.url is {given.url}, and {served} is served at hooks.bind",
            "right where a proxy stands between; else both have to be the same",
        )
    if not given.key_file:
        yield warning(
            CHECK,
            "hooks.keyFile is not set: after a restart the scripts of jobs from before are not believed",
            "set it",
        )
    if fenced and not given.site_key_file:
        yield warning(
            CHECK,
            "slurm.conf has the fence script, and hooks.siteKeyFile is not set: what it calls answers 403",
            "set it to a file with the key that the nodes have beside the script",
        )
    if _loopback(parts.hostname or ""):
        yield warning(
            CHECK, f"hooks.url is {given.url}, which every machine takes for itself", "an address that nodes reach"
        )
    if given.answer and not given.ours:
        yield warning(
            CHECK,
            f"{given.url} answers here with {given.answer}, and not as the hooks do",
            "see where that address leads, by which path, and whether a proxy finds the extender behind it; "
            "--submit-probe asks from a node",
        )
    elif given.answer:
        yield ok(CHECK, f"{given.url} answers here; whether it does on a node, --submit-probe tells")
    else:
        yield unseen(
            CHECK,
            f"{given.url} does not answer here: {given.error}",
            "it has to answer on Slurm's nodes: --submit-probe asks from one",
        )


@dataclass(frozen=True, slots=True)
class Probed:
    """What came of a job that called the hooks. `state` is Slurm's last word, `code` the exit code of the script."""

    url: str
    job_id: int = 0
    node: str = ""
    state: str = ""
    reason: str = ""
    code: int | None = None
    error: str = ""


NOBODY, NOT_TRUSTED, UNWELL, NO_CLIENT, ANOTHER = 11, 12, 13, 14, 15
"""Exit codes of `extender/slurm/probe.sh`; 0: the hooks answered."""

_SAID = {
    NOBODY: ("nobody answered", "routes, firewalls, NetworkPolicies and DNS between that node and hooks.url"),
    NOT_TRUSTED: (
        "there is an answer, but the node does not trust the certificate",
        "sign hooks.tls by an authority that the nodes know, or make its own known to them (update-ca-certificates)",
    ),
    UNWELL: ("the answer is a 5xx", "look into the log of the extender, or of the proxy between"),
    ANOTHER: (
        "something else answers there",
        "see where hooks.url leads on that node, by which path, and whether a proxy sends elsewhere or asks who calls",
    ),
    NO_CLIENT: ("the node has neither curl nor wget, which https needs", "install curl there"),
}


def probe(given: Probed) -> Iterator[Finding]:
    """One line."""
    job = f"job {given.job_id}{f' on {given.node}' if given.node else ''}"
    if given.error:
        yield wrong(
            PROBE, f"no job could be made: {given.error}", "--probe-partition names one that takes jobs of this token"
        )
    elif given.code is None:
        yield warning(
            PROBE,
            f"{job} did not come to its end: {given.state or 'unknown'}{f' ({given.reason})' if given.reason else ''}; "
            "it was cancelled",
            "choose a partition with a free node by --probe-partition, or wait for longer by --probe-timeout",
        )
    elif given.code == 0 and given.state == "COMPLETED":
        yield ok(PROBE, f"{job} reached {given.url}")
    else:
        said, advice = _SAID.get(
            given.code, (f"the script ended with {given.code}, the job {given.state}", "see slurmd's log on that node")
        )
        yield wrong(PROBE, f"{job} called {given.url}: {said}", advice)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
