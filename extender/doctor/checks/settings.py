"""Settings of slurm.conf that hurt here. Facts and Slurm's defaults are those of slurm.conf(5), 23.11 to 26.05."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from extender.doctor.finding import Finding, ok, unseen, warning, wrong
from extender.doctor.slurm_conf import KnownSlurmConf
from extender.domain.nodes.fences import NO_LIMIT, too_short

CHECK = "slurm.conf"

HOW = "`scontrol show config | slurm-extender doctor --slurm-conf - …`, or --slurm-conf FILE"


@dataclass(frozen=True, slots=True)
class Site:
    """What of the configuration and of Slurm's state the settings are held against."""

    kill_wait_s: float = 30.0
    send_user_signal: bool = False
    preempting_qos: frozenset[str] = frozenset()
    max_grace_s: float = 600.0
    records: int | None = None
    """Jobs that slurmctld knows, ended ones among them; `None`: not known."""

    external_nodes: bool = False
    graced: bool = False
    """Some partition has GraceTime."""

    slurmds: bool = True
    """Some node has a slurmd."""


def settings(conf: KnownSlurmConf | None, site: Site) -> Iterator[Finding]:
    """A line for each setting, or one where slurm.conf was not seen."""
    if conf is None:
        yield unseen(CHECK, "its settings were not seen: slurmrestd shows them from 26.05 on", HOW)
        return
    for check in _LOOKS:
        yield from check(conf, site)


def _not_shown(name: str, conf: KnownSlurmConf) -> Finding:
    return unseen(name, f"{conf.source} does not show it", f"`scontrol show config | grep -i {name}`; {HOW}")


def _scheduling(conf: KnownSlurmConf, _site: Site) -> Iterator[Finding]:
    name = "SchedulerParameters"
    given = conf.parameters(name)
    if given is None:
        yield _not_shown(name, conf)
        return
    delay = given.get("batch_sched_delay", "3")
    if delay != "0":
        yield warning(
            "batch_sched_delay",
            f"it is {delay} s: so long a submitted job may wait before Slurm looks at it",
            "SchedulerParameters=batch_sched_delay=0: a Pod has its node 1 s sooner on average, a burst far more",
        )
    else:
        yield ok("batch_sched_delay", "0: submitted jobs are looked at within a second")
    if "defer" in given:
        yield warning(
            "defer",
            "SchedulerParameters has `defer`: Slurm refuses every allocation at once (error 2125), each Pod is queued",
            "take `defer` out; `defer_batch` defers what sbatch submits and nothing else",
        )
    else:
        yield ok("defer", "not set")


def _memory(conf: KnownSlurmConf, _site: Site) -> Iterator[Finding]:
    of_cpu, of_node = conf.number("DefMemPerCPU", 0), conf.number("DefMemPerNode", 0)
    if of_cpu is None and of_node is None:
        yield _not_shown("DefMemPerCPU", conf)
    elif max(of_cpu or 0, of_node or 0) <= 0:
        yield warning(
            "default memory",
            "neither DefMemPerCPU nor DefMemPerNode is set: a job that names no memory gets that of the whole node",
            "set DefMemPerCPU, or no Pod fits beside such a job; placeholders always name theirs",
        )
    else:
        yield ok("default memory", f"DefMemPerCPU={of_cpu or 'unset'}, DefMemPerNode={of_node or 'unset'}")


def _kill_wait(conf: KnownSlurmConf, site: Site) -> Iterator[Finding]:
    real = conf.number("KillWait", 30)
    if real is None:
        yield _not_shown("KillWait", conf)
        return
    said = f"{real} s, and slurm.killWait says {site.kill_wait_s:g} s"
    if real == site.kill_wait_s:
        yield ok("KillWait", f"{real} s, as slurm.killWait says")
    elif real < site.kill_wait_s:
        yield wrong(
            "KillWait", said, f"set slurm.killWait to {real}s: Slurm ends scripts and processes before we think"
        )
    else:
        yield warning("KillWait", said, f"set slurm.killWait to {real}s: Pods get less time than Slurm would give them")


def _requeue(conf: KnownSlurmConf, _site: Site) -> Iterator[Finding]:
    given = conf.number("JobRequeue", 1)
    if given is None:
        yield _not_shown("JobRequeue", conf)
    else:
        yield ok("JobRequeue", f"{given}; placeholders ask not to be requeued, whatever it is")


def _records(conf: KnownSlurmConf, site: Site) -> Iterator[Finding]:
    most, age = conf.number("MaxJobCount", 10_000), conf.number("MinJobAge", 300)
    if most is None:
        yield _not_shown("MaxJobCount", conf)
    elif site.records is None:
        yield unseen(
            "MaxJobCount", f"{most}; how many records slurmctld holds was not answered", "`squeue -t all | wc -l`"
        )
    else:
        said = f"{site.records} of {most} job records are taken, ended jobs of the last {age or 300} s among them"
        advice = "raise MaxJobCount, or lower MinJobAge: no job is taken when it is reached, no Pod placed"
        if site.records >= 0.9 * most:
            yield wrong("MaxJobCount", said, advice)
        elif site.records >= 0.5 * most:
            yield warning("MaxJobCount", said, advice)
        else:
            yield ok("MaxJobCount", said)
    if age is not None and 0 < age < 60:
        yield warning(
            "MinJobAge",
            f"{age} s: so soon Slurm forgets how a job ended",
            "60 or more: a job that is not there any more when we ask counts as one that vanished",
        )


def _prolog_timeout(conf: KnownSlurmConf, site: Site) -> Iterator[Finding]:
    # slurmrestd shows it as the two that it stands for (26.05.5).
    name = "PrologEpilogTimeout"
    limit = conf.number("PrologTimeout" if "prologtimeout" in conf.values else name, NO_LIMIT)
    if limit is None:
        yield _not_shown(name, conf)
        return
    said = too_short(NO_LIMIT if limit < 0 else limit, site.max_grace_s)
    if said:
        yield warning(name, said[0], f"leave it out, or {site.max_grace_s:g} s and more")
    else:
        yield ok(name, "none" if limit < 0 or limit >= NO_LIMIT else f"{limit} s")


def _slurmd_timeout(conf: KnownSlurmConf, site: Site) -> Iterator[Finding]:
    name = "SlurmdTimeout"
    timeout = conf.number(name, 300)
    if timeout is None:
        yield _not_shown(name, conf)
    elif not site.slurmds or timeout == 0 or timeout > 30:
        yield ok(name, "never" if timeout == 0 else f"{timeout} s")
    elif timeout > 10:
        yield warning(
            name, f"{timeout} s: a node whose slurmd is started again is soon DOWN, and its jobs are lost", "300"
        )
    else:
        yield wrong(
            name,
            f"{timeout} s: a node is DOWN, and given away when it is back, before it can be drained for the Pods there",
            "above 30 s; Slurm's default is 300 s",
        )


def _gang(conf: KnownSlurmConf, _site: Site) -> Iterator[Finding]:
    mode = conf.words("PreemptMode")
    if mode is None:
        yield _not_shown("PreemptMode", conf)
    elif mode & {"GANG", "SUSPEND"}:
        yield wrong(
            "PreemptMode",
            f"{','.join(sorted(mode))}: Slurm runs the preemptor beside the Pod that it preempts; nothing holds that",
            "PreemptMode=CANCEL or REQUEUE, or PreemptMode=OFF on the partitions of placeholders",
        )
    else:
        yield ok("PreemptMode", ",".join(sorted(mode)) or "OFF")


def _signal(conf: KnownSlurmConf, site: Site) -> Iterator[Finding]:
    name = "send_user_signal"
    given = conf.parameters("PreemptParameters")
    if given is None:
        yield _not_shown("PreemptParameters", conf)
    elif name in given:
        if site.send_user_signal:
            yield ok(name, "set, as slurm.sendUserSignal says")
        else:
            yield warning(
                name,
                "PreemptParameters has it",
                "set slurm.sendUserSignal: true; preemptions are looked for by reading",
            )
    elif site.send_user_signal:
        yield wrong(
            name,
            "slurm.sendUserSignal is true, and PreemptParameters lacks it: no placeholder is told of a preemption",
            "PreemptParameters=send_user_signal in slurm.conf, or slurm.sendUserSignal: false",
        )
    elif site.graced:
        price = "each such preemption of an external node leaves it NOT_RESPONDING" if site.external_nodes else ""
        yield warning(
            name,
            "there are partitions with GraceTime, and PreemptParameters lacks it: scripts do not hear that a "
            f"preemption has begun{'; ' if price else ''}{price}",
            "PreemptParameters=send_user_signal in slurm.conf, and slurm.sendUserSignal: true",
        )
    else:
        yield ok(name, "not set, and no partition has GraceTime")


_SCRIPTS = {
    "Epilog": "seconds between the end of a job and our drain are not held on the node",
    "PrologSlurmctld": "the next job may start on a node before our drain is there",
    "EpilogSlurmctld": "the end of a job is known by the next poll, not at once",
}


def fenced(conf: KnownSlurmConf | None) -> bool:
    """The fence script is known to be installed somewhere."""
    return conf is not None and any("slurm-extender" in (conf.get(name, "") or "") for name in _SCRIPTS)


def _scripts(conf: KnownSlurmConf, site: Site) -> Iterator[Finding]:
    for name, price in _SCRIPTS.items():
        if name == "Epilog" and not site.slurmds:
            continue
        given = conf.get(name, "")
        if given is None:
            yield _not_shown(name, conf)
        elif not given:
            yield warning(
                name,
                f"there is none: {price}",
                "install what `slurm-extender generate fence-script` prints (docs/fences.md)",
            )
        elif "slurm-extender" in given:
            yield ok(name, given)
        else:
            yield unseen(
                name,
                f"{given}; its name does not tell whether the fence script is in it",
                "`grep SLURM_EXTENDER FILE` where it is (docs/fences.md)",
            )


def _select(conf: KnownSlurmConf, _site: Site) -> Iterator[Finding]:
    plugin = conf.get("SelectType", "select/cons_tres")
    if plugin is None:
        yield _not_shown("SelectType", conf)
    elif "linear" in plugin:
        yield wrong("SelectType", f"{plugin} gives whole nodes: each Pod would take one", "SelectType=select/cons_tres")
    else:
        yield ok("SelectType", plugin)
    words = conf.words("SelectTypeParameters", "CR_CORE_MEMORY")
    if words is None:
        yield _not_shown("SelectTypeParameters", conf)
    elif not any("MEMORY" in word for word in words):
        yield warning(
            "SelectTypeParameters",
            f"{','.join(sorted(words)) or 'none'}: Slurm does not count memory, and kubelet refuses what does not fit",
            "SelectTypeParameters=CR_Core_Memory, CR_CPU_Memory or CR_Socket_Memory",
        )
    else:
        yield ok("SelectTypeParameters", ",".join(sorted(words)))


def _authentication(conf: KnownSlurmConf, _site: Site) -> Iterator[Finding]:
    given = conf.get("AuthAltTypes", "")
    if given is None:
        yield _not_shown("AuthAltTypes", conf)
    elif "auth/jwt" not in given:
        yield wrong(
            "AuthAltTypes",
            f"{given or 'none'}: slurmctld takes no token",
            "AuthAltTypes=auth/jwt and AuthAltParameters=jwt_key=FILE",
        )
    else:
        yield ok("AuthAltTypes", given)


def _qos(conf: KnownSlurmConf, site: Site) -> Iterator[Finding]:
    plugin = conf.get("PreemptType", "")
    if plugin is not None and "qos" in plugin and not site.preempting_qos:
        yield warning(
            "PreemptType",
            f"{plugin}, and slurm.preemptingQos names no QOS",
            "name there the QOS that may preempt: an allocation at once that Slurm refuses has preempted all the same",
        )


_LOOKS: tuple[Callable[[KnownSlurmConf, Site], Iterator[Finding]], ...] = (
    *(_scheduling, _memory, _kill_wait, _requeue, _records, _prolog_timeout, _slurmd_timeout),
    *(_gang, _signal, _scripts, _select, _authentication, _qos),
)
