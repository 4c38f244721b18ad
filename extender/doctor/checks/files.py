"""Check the files that the configuration names: secrets, the policy, certificates, and the volumes they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extender.doctor.facts import Certificate, Mount, NamedFile, PolicyReading
from extender.doctor.finding import Finding, error, ok, skipped, warning
from extender.doctor.registry import CheckGroup

check = CheckGroup()

SOON_S = 14 * 86400.0
"""A certificate with less time left should have been renewed."""


@check(needs=lambda facts: (facts.files,))
def files(named: Sequence[NamedFile]) -> Iterator[Finding]:
    """Report files that are missing, empty or not readable."""
    remote = [one for one in named if one.absent and not one.mounted]
    if remote:
        yield skipped(
            "files",
            f"{', '.join(f'{one.key} ({one.path})' for one in remote)}: not on this machine",
            "run it in the extender's Pod: kubectl exec -n slurm-extender deploy/slurm-extender -- slurm-extender "
            "doctor --config /etc/slurm-extender/config/config.yaml",
        )
    bad = [one for one in named if one not in remote and (one.error or one.empty)]
    for one in bad:
        yield error(
            "files",
            f"{one.key}: {one.path} {'is empty' if one.empty else f'cannot be read: {one.error}'}",
            "check that the Secret to be mounted there exists, has this key, and is readable by the process",
        )
    good = len(named) - len(bad) - len(remote)
    if good:
        yield ok("files", f"{good} can be read")


@check(needs=lambda facts: (facts.policy,))
def policy(reading: PolicyReading | None) -> Iterator[Finding]:
    """Report the faults of the policy file. `None`: the configuration names none."""
    if reading is None:
        yield ok("policy", "jobs.policyFile is not set: only the configuration restricts Pods")
    elif reading.remote:
        how = "`slurm-extender check-config CONFIG --policy FILE` with the file"
        yield skipped("policy", f"{reading.path} is not on this machine", how)
    elif reading.faults:
        for fault in reading.faults:
            advice = (
                "fix the file: until then a running extender keeps the last valid policy, and a new one places no Pod"
            )
            yield error("policy", fault, advice)
    else:
        yield ok("policy", f"{reading.path}: {reading.rules} rules")


@check(needs=lambda facts: (facts.mounts, facts.paths))
def mounts(mounted: Sequence[Mount] | None, paths: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """Report mounted Secrets and ConfigMaps that are missing, or lack a key.

    `paths` are the files that the configuration names, by key. `None`: no access to the Deployment.
    """
    if mounted is None:
        yield skipped(
            "mounts",
            "no access to the extender's Deployment",
            "run this as a user who may read Deployments, Secrets and ConfigMaps there; a running Pod has all of them",
        )
        return
    bad = False
    for one in mounted:
        mount = f"{one.kind} {one.name}, which {one.deployment} mounts at {one.folder},"
        if one.there is False and not one.optional:
            bad = True
            advice = "create it: until then the Pods of the Deployment stay in ContainerCreating"
            yield error("mounts", f"{mount} does not exist", advice)
        elif one.keys is not None and one.folder:
            for key, path in paths:
                file = path.removeprefix(one.folder.rstrip("/") + "/")
                if file != path and file.partition("/")[0] not in one.keys:
                    bad = True
                    has = ", ".join(sorted(one.keys)) or "none"
                    seen = f"{mount} has no key {file}, which {key} names; it has {has}"
                    yield error("mounts", seen, f"add {file}, or change {key}")
    hidden = sorted(f"{one.kind} {one.name}" for one in mounted if one.there is None)
    if hidden:
        yield skipped("mounts", f"no access to {', '.join(hidden)}", "use `kubectl get` as an administrator")
    elif not bad:
        yield ok("mounts", f"all {len(mounted)} exist")


@check(needs=lambda facts: (facts.certificates, facts.now))
def certificates(found: Sequence[Certificate], now: float) -> Iterator[Finding]:
    """Judge certificates by their key, end, names and authority. `now`: seconds since the epoch."""
    for one in found:
        yield from _certificate(one, now)


def _certificate(one: Certificate, now: float) -> Iterator[Finding]:
    check_name = f"certificate {one.key}"
    if one.absent:
        how = "run `slurm-extender doctor` in the extender's Pod"
        yield skipped(check_name, f"{one.file} is not on this machine", how)
        return
    if one.error:
        yield error(
            check_name,
            one.error,
            "check that certificate and key are readable, complete and belong together; a Secret that is written in "
            "two steps is incomplete in between",
        )
        return
    left = None if one.expires_at is None else one.expires_at - now
    if left is not None and left <= 0:
        seen = f"{one.file} expired {-left / 86400:.1f} days ago"
        yield error(check_name, seen, "renew it: clients reject it")
        return
    soon = left is not None and left < SOON_S
    if left is not None and soon:
        seen = f"{one.file} expires in {left / 86400:.1f} days"
        yield warning(check_name, seen, "check that it is renewed; the extender reads it again by itself")
    rejected = [(name, why) for name, why in one.names.items() if why]
    for name, why in rejected:
        seen = f"clients that call {name} reject {one.file}: {why}"
        yield error(check_name, seen, f"add {name} to its DNS names or IPs")
    if one.chain:
        yield error(
            check_name,
            f"clients that trust the configured authority reject {one.file}: {one.chain}",
            "sign it by that authority, and append intermediate certificates to the same file",
        )
    if not (soon or rejected or one.chain):
        lasts = "" if left is None else f", expires in {left / 86400:.0f} days"
        names = f", and is valid for {', '.join(one.names)}" if one.names else ""
        yield ok(check_name, f"{one.file} fits its key{lasts}{names}")
