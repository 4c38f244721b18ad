"""Check the running extender, kube-scheduler's calls, the hooks, and the result of the probe."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import inf
from urllib.parse import urlsplit

from extender.config.listeners import Listener, unreachable
from extender.config.values import is_loopback
from extender.doctor.checks.settings import fenced
from extender.doctor.facts import HooksAsConfigured, ProbedFence, ProbeResult, RunningExtender
from extender.doctor.finding import Finding, error, ok, skipped, warning
from extender.doctor.registry import CheckGroup

check = CheckGroup()

CALLED_WITHIN_S = 10.0
"""kube-scheduler calls for a new Pod within milliseconds, unless other Pods are before it."""

CALLED_AGAIN_S = 420.0
"""kube-scheduler retries a Pod after at most five minutes, which it checks every 30 s, plus its longest back-off, a
minute in the shipped profile (`scheduling_queue.go`, flushUnschedulableEntitiesLeftover)."""

NOBODY, NOT_TRUSTED, UNWELL, NO_CLIENT, ANOTHER = 11, 12, 13, 14, 15
"""Exit codes of `extender/slurm/probe.sh`; 0: the hooks answered."""

_PROBE_ERRORS = {
    NOBODY: ("nothing answered", "check routes, firewalls, NetworkPolicies and DNS between that node and hooks.url"),
    NOT_TRUSTED: (
        "there is an answer, but the node does not trust the certificate",
        "sign hooks.tls by an authority that the nodes trust, or install its authority there (update-ca-certificates)",
    ),
    UNWELL: ("the answer is a 5xx", "see the log of the extender, or of the proxy in between"),
    ANOTHER: (
        "another program answers there",
        "check where hooks.url leads on that node, by which path, and whether a proxy redirects or wants credentials",
    ),
    NO_CLIENT: ("the node has neither curl nor wget, which https needs", "install curl there"),
}


@check(needs=lambda facts: (facts.config.listeners,) if facts.in_cluster else None)
def listeners(configured: Sequence[Listener]) -> Iterator[Finding]:
    """Report listeners of a Pod that no other Pod reaches."""
    for one in unreachable(configured):
        yield warning(
            "listeners",
            f"{one.key} is {one.bind}, which is reachable only inside of the extender's own Pod",
            f'set {one.key} to ":{one.bind.port}", unless all its clients run in that Pod',
        )


@check(needs=lambda facts: (facts.process, facts.reported))
def process(extender: RunningExtender, reported: Collection[str]) -> Iterator[Finding]:
    """Report failed lines of `/readyz?verbose`, except those that a check reported before."""
    if extender.error:
        yield skipped(
            "extender",
            f"it did not answer: {extender.error}",
            "run the doctor in its Pod, or `kubectl port-forward -n slurm-extender deploy/slurm-extender 8081 8082` "
            "and see /readyz?verbose and /metrics",
        )
        return
    bad = [line for line in extender.lines if not line.ok and not set(line.text.split("; ")) <= set(reported)]
    for line in bad:
        judge = error if line.required else warning
        what = f"{line.name}: {line.text or 'failed'}"
        yield judge("extender", what, "see docs/operations.md and the extender's log")
    if not bad:
        yield ok("extender", f"it is ready: {len(extender.lines)} checks passed")


@check(needs=lambda facts: None if facts.process.error else (facts.process, facts.config.scheduler.name))
def calls(extender: RunningExtender, scheduler: str) -> Iterator[Finding]:
    """Judge whether kube-scheduler calls `/filter`, by the last call and the Pods that wait for the next one."""
    if extender.filters is None:
        yield skipped("calls", "its metrics are not known", "see `slurm_extender_last_filter_timestamp_seconds`")
        return
    if extender.leads is False:
        yield skipped("calls", "this replica does not lead, and counts only its own calls", "ask the leader")
        return
    quiet = (0.0 if extender.filters else inf) if extender.quiet_s is None else extender.quiet_s
    overdue = [age for age in extender.waiting_s if _overdue(age, quiet)]
    since = "" if quiet == inf else f" for {quiet:.0f} s"
    if overdue:
        yield error(
            "calls",
            f"kube-scheduler has {'not called' + since if extender.filters else 'never called'}, "
            f"and {len(overdue)} Pods of {scheduler} wait for it",
            f"check that a kube-scheduler with the profile {scheduler} runs, that its urlPrefix leads here by the "
            "served scheme, and its log for `extender`",
        )
    elif extender.filters:
        yield ok("calls", f"kube-scheduler called /filter {quiet:.0f} s ago, {extender.filters} times in all")
    elif extender.waiting_s:
        how = f"run doctor again when Pods wait, {CALLED_AGAIN_S:.0f} s after the start"
        yield skipped("calls", f"kube-scheduler has not called{since}, which is not long", how)
    else:
        yield ok("calls", "kube-scheduler has not called; no Pod waits for it")


def _overdue(age_s: float, quiet_s: float) -> bool:
    """Return whether a call for this Pod is overdue: it came after the last call, or that is too long ago."""
    return age_s >= CALLED_WITHIN_S and (age_s < quiet_s or quiet_s >= CALLED_AGAIN_S)


@check(needs=lambda facts: (facts.hooks, fenced(facts.conf)))
def hooks(configured: HooksAsConfigured, fence: bool) -> Iterator[Finding]:
    """Judge the hooks as far as possible without a node. `fence`: slurm.conf has the fence script."""
    if not configured.bound:
        advice = "set hooks.bind and hooks.url: a script then holds its node until the Pod is gone"
        yield warning("hooks", "hooks.bind is not set: scripts call nothing, and the extender polls instead", advice)
        return
    if not configured.url:
        advice = "set the address of the hooks as Slurm's nodes reach them"
        yield warning("hooks", "hooks.url is not set: scripts call nothing", advice)
        return
    parts = urlsplit(configured.url)
    if (parts.scheme == "https") != configured.tls and parts.port is not None:
        seen = f"hooks.url is {configured.url}, and {'https' if configured.tls else 'http'} is served at hooks.bind"
        yield warning("hooks", seen, "use the same scheme, unless a proxy in between converts it")
    if not configured.key_file:
        seen = "hooks.keyFile is not set: after a restart the extender rejects the scripts of older jobs"
        yield warning("hooks", seen, "set it")
    if fence and not configured.site_key_file:
        seen = "slurm.conf has the fence script, and hooks.siteKeyFile is not set: its calls are answered by 403"
        yield warning("hooks", seen, "set it to a file with the key that the nodes have beside the script")
    if is_loopback(parts.hostname or ""):
        seen = f"hooks.url is {configured.url}, a loopback address"
        yield warning("hooks", seen, "set an address that nodes reach")
    if configured.answer and not configured.hooks_answered:
        yield warning(
            "hooks",
            f"{configured.url} answers here with {configured.answer}, and not as the hooks do",
            "check where that address leads, by which path, and whether a proxy reaches the extender; --submit-probe "
            "calls it from a node",
        )
    elif configured.answer:
        yield ok("hooks", f"{configured.url} answers here; --submit-probe checks it from a node")
    else:
        how = "it must answer on Slurm's nodes: --submit-probe calls it from one"
        yield skipped("hooks", f"{configured.url} does not answer here: {configured.error}", how)


@check(needs=lambda facts: None if facts.probe is None else (facts.probe,))
def probe(result: ProbeResult) -> Iterator[Finding]:
    """Judge the exit of the probe's job."""
    job = f"job {result.job_id}{f' on {result.node}' if result.node else ''}"
    if result.error:
        advice = "name a partition that takes jobs of this token's user by --probe-partition"
        yield error("probe", f"no job could be submitted: {result.error}", advice)
    elif result.code is None:
        state = f"{result.state or 'unknown'}{f' ({result.reason})' if result.reason else ''}"
        yield warning(
            "probe",
            f"{job} did not end in time: {state}; it was cancelled",
            "choose a partition with a free node by --probe-partition, or wait longer by --probe-timeout",
        )
    elif result.code == 0 and result.state == "COMPLETED":
        yield ok("probe", f"{job} reached {result.url}")
    else:
        other = f"the script exited with {result.code}, the job is {result.state}", "see slurmd's log on that node"
        meaning, advice = _PROBE_ERRORS.get(result.code, other)
        yield error("probe", f"{job} called {result.url}: {meaning}", advice)


@check(needs=lambda facts: (facts.probe.fence,) if facts.probe is not None and facts.probe.fence is not None else None)
def probed_fence(fence: ProbedFence) -> Iterator[Finding]:
    """Judge whether the Epilog called at the end of the probe's job: the fence script works there, end to end."""
    missing = ", ".join(fence.missing)
    if fence.called:
        yield ok("probe-fence", f"the Epilog of {', '.join(fence.called)} called with the site key")
    if fence.no_key:
        yield skipped(
            "probe-fence",
            f"hooks.siteKeyFile is not set: no call of a fence script counts, {missing} has no fence",
            "`slurm-extender generate fence-script` prints the lines to copy (docs/fences.md)",
        )
    elif fence.trouble:
        yield skipped(
            "probe-fence",
            f"the extender could not be asked for the call of the Epilog on {missing}: {fence.trouble}",
            "run the doctor in the Pod of the leader",
        )
    elif missing:
        yield warning(
            "probe-fence",
            f"no Epilog with the site key called from {missing} after the job: jobs that may get it are batch jobs",
            "set Epilog= in slurm.conf to the output of `slurm-extender generate fence-script`, put script and key on "
            "that node, `scontrol reconfigure`; a key other than hooks.siteKeyFile is answered by 403 (docs/fences.md)",
        )
