"""The whole examination: fetch the facts, and let each check judge its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from extender.config.derive import pairing, slurmd_selector
from extender.config.document import ExtenderConfiguration
from extender.doctor.checks.certificates import certificates
from extender.doctor.checks.clock import clock
from extender.doctor.checks.files import files
from extender.doctor.checks.gates import gates
from extender.doctor.checks.hooks import Probed, hooks, probe
from extender.doctor.checks.mounts import mounts
from extender.doctor.checks.nodes import nodes
from extender.doctor.checks.partitions import partitions, who_may_use, with_modes
from extender.doctor.checks.policy import policy
from extender.doctor.checks.process import process
from extender.doctor.checks.profile import CHECK as SCHEDULER
from extender.doctor.checks.profile import KIND, ExpectedProfile, called_by
from extender.doctor.checks.rights import rights
from extender.doctor.checks.schedulers import Configured, leaders, schedulers
from extender.doctor.checks.server import server
from extender.doctor.checks.service import called, service
from extender.doctor.checks.settings import Site, fenced, settings
from extender.doctor.checks.slurmrestd import slurmrestd
from extender.doctor.checks.token import token
from extender.doctor.finding import Finding, unseen, wrong
from extender.doctor.gather.deployments import (
    ask_deployments,
    ask_mounts,
    ask_schedulers,
    ask_services,
    scheduler_documents,
)
from extender.doctor.gather.files import named_files, named_paths, own_names, read_certificates, read_policy
from extender.doctor.gather.kubernetes import KubeFacts, ask_kubernetes
from extender.doctor.gather.probe import submit_probe
from extender.doctor.gather.process import ask_hooks, ask_process
from extender.doctor.gather.slurm import SlurmFacts, ask_slurm
from extender.doctor.slurm_conf import KnownSlurmConf, read_text
from extender.doctor.tools import Tools
from extender.domain.nodes.mapping import map_nodes
from extender.domain.nodes.slurmds import slurmd_nodes
from extender.domain.verdict import REJECTIONS
from extender.domain.views import PodView
from extender.http.scheduling import PREFIX
from slurmclient import API_VERSIONS


@dataclass(frozen=True, slots=True)
class ExaminationInputs:
    """What a person brings along: texts with the names of their files, and whether a job may be submitted."""

    slurm_conf: tuple[str, str] | None = None
    scheduler_configs: tuple[tuple[str, str], ...] = ()
    probe: bool = False
    probe_partition: str = ""
    probe_timeout_s: float = 120.0


async def examine(
    config: ExtenderConfiguration, tools: Tools, given: ExaminationInputs = ExaminationInputs()
) -> list[Finding]:
    """Every finding, in the order in which things depend on one another. Raises YamlFault for a bad file."""
    brought = [
        Configured(name, document) for name, text in given.scheduler_configs for document in scheduler_documents(text)
    ]
    empty = [name for name, text in given.scheduler_configs if not scheduler_documents(text)]
    slurm = await ask_slurm(config, tools)
    kube = await ask_kubernetes(config, tools)
    conf = read_text(given.slurm_conf[1], given.slurm_conf[0]) if given.slurm_conf else slurm.conf
    found = [*_of_slurm(config, slurm, conf, tools), *_of_kubernetes(config, kube), *_of_nodes(config, slurm, kube)]
    found += [
        wrong(SCHEDULER, f"{name}: there is no {KIND} in it", "give the file that kube-scheduler's --config names")
        for name in empty
    ]
    found += await _of_schedulers(config, kube, tools, brought)
    now = tools.clock.wall() + (kube.ahead_s or 0.0)
    waiting = [now - pod.created_at for pod in kube.pods or () if _waits(pod, config.scheduler.name)]
    known = {one.seen for one in found}
    found += process(await ask_process(config, tools, waiting), config.scheduler.name, known)
    found += hooks(await ask_hooks(config, tools), fenced=fenced(conf))
    if given.probe:
        found += probe(await _probed(config, slurm, tools, given))
    return found


def _of_slurm(
    config: ExtenderConfiguration, slurm: SlurmFacts, conf: KnownSlurmConf | None, tools: Tools
) -> Iterator[Finding]:
    now = tools.clock.wall() + (slurm.ahead_s or 0.0)
    yield from slurmrestd(slurm.addresses, max(API_VERSIONS))
    yield from token(slurm.token, config.slurm.user, now, _name(conf))
    yield from files(named_files(config, tools))
    yield from policy(read_policy(config, tools))
    site = Site(
        kill_wait_s=config.slurm.kill_wait,
        send_user_signal=config.slurm.send_user_signal,
        preempting_qos=frozenset(config.slurm.preempting_qos),
        max_grace_s=config.limits.max_grace,
    )
    if slurm.picture.known:
        yield clock("slurmctld", slurm.ahead_s)
        picture = with_modes(slurm.picture, conf)
        yield from partitions(picture)
        yield from who_may_use(picture, config.jobs.partitions)
        machines = picture.nodes.values()
        site = replace(
            site,
            records=slurm.records,
            external_nodes=any(node.external for node in machines),
            graced=any(one.grace_time_s for one in picture.partitions.values()),
            slurmds=any(not node.external for node in machines),
        )
    else:
        yield unseen("slurmctld", slurm.trouble or "nothing was read from it", "mend what stands above, and look again")
    yield from settings(conf, site)


def _of_kubernetes(config: ExtenderConfiguration, kube: KubeFacts) -> Iterator[Finding]:
    yield from server(kube.server)
    if kube.server.error:
        return
    yield clock("the API server", kube.ahead_s)
    yield from rights(kube.may, kube.account, kube.why_not)
    yield from gates(kube.admission, config.scheduler.name, webhook_served=config.admission.bind is not None)
    election = config.leader_election
    yield from leaders(kube.leaders, config.scheduler.name, f"{election.namespace}/{election.lease_name}")


def _of_nodes(config: ExtenderConfiguration, slurm: SlurmFacts, kube: KubeFacts) -> Iterator[Finding]:
    if not slurm.picture.known or kube.nodes is None:
        return
    selector = slurmd_selector(config)
    slurmds = slurmd_nodes(pod for pod in kube.pods or () if selector.selects(pod))
    pairs = map_nodes(kube.nodes, slurm.picture, slurmds, pairing=pairing(config))
    yield from nodes(pairs, len(kube.nodes), len(slurm.picture.nodes))


async def _of_schedulers(
    config: ExtenderConfiguration, kube: KubeFacts, tools: Tools, brought: Sequence[Configured]
) -> list[Finding]:
    """kube-scheduler's configuration, what the Deployments mount, and the certificates by the names they are called."""
    deployments = None if kube.server.error else await ask_deployments(tools.kubernetes)
    seen, mounted = None, None
    if deployments is not None and tools.kubernetes is not None:
        seen = await ask_schedulers(tools.kubernetes, deployments)
        mounted = await ask_mounts(tools.kubernetes, deployments, config.leader_election.namespace)
    # What is brought is what there is: a cluster may keep its configuration in a file.
    configured = [*brought] if brought else seen
    tls = config.http.tls
    wanted = ExpectedProfile(
        config.scheduler.name,
        PREFIX,
        https=tls is not None,
        client_certificates=tls is not None and tls.client_ca_file is not None,
        other_profiles=config.scheduler.other_profiles,
        unclaimed_after_s=config.limits.unclaimed_after,
        nodes=None if kube.nodes is None else len(kube.nodes),
    )
    names = own_names(config)
    for one in configured or ():
        names.setdefault("http.tls", []).extend(called_by(one.document, wanted))
    names = {group: list(dict.fromkeys(ones)) for group, ones in names.items()}
    named = [to for one in configured or () if (to := called(one.document, one.where, wanted)) is not None]
    reached = [] if tools.kubernetes is None or kube.server.error else await ask_services(tools.kubernetes, named)
    return [
        *schedulers(configured, wanted),
        *(finding for to in reached for finding in service(to)),
        *mounts(mounted or None, named_paths(config)),
        *certificates(read_certificates(config, tools, names), tools.clock.wall()),
    ]


async def _probed(config: ExtenderConfiguration, slurm: SlurmFacts, tools: Tools, given: ExaminationInputs) -> Probed:
    url = next((one.url for one in slurm.addresses if not one.error), None)
    if url is None or not slurm.token.accepted:
        return Probed(config.hooks.url or "", error=slurm.trouble)
    if not config.hooks.url:
        return Probed("", error="hooks.url is not set, so there is nothing to call")
    partition, timeout_s = given.probe_partition, given.probe_timeout_s
    return await submit_probe(config, tools, url, partition, timeout_s, ahead_s=slurm.ahead_s or 0.0)


def _waits(pod: PodView, scheduler: str) -> bool:
    """kube-scheduler should ask for it; it does not for one that its own plugins reject."""
    ours = pod.scheduler_name == scheduler and not pod.node_name and not pod.gates and not pod.finished
    return ours and (not pod.unschedulable or any(text in pod.unschedulable for text in REJECTIONS))


def _name(conf: KnownSlurmConf | None) -> str:
    """SlurmUser: `slurm(64030)` in `scontrol show config`."""
    text = conf.get("SlurmUser", "") if conf is not None else None
    return (text or "").partition("(")[0]
