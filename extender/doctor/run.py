"""Fetch the facts, run the checks, and close what was opened."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from extender.config.document import ExtenderConfiguration
from extender.config.load import Overrides, from_environment, parse
from extender.doctor.checks import cpus, devices, extender, files, gangs, kubernetes, scheduler, settings, slurm
from extender.doctor.facts import ExpectedProfile, Facts, KubeFacts, ProbeResult, SchedulerConfigFile, SlurmFacts
from extender.doctor.finding import Finding
from extender.doctor.gather.deployments import (
    gather_configuration,
    gather_deployments,
    gather_mounts,
    gather_schedulers,
    gather_services,
    scheduler_documents,
)
from extender.doctor.gather.devices import gather_devices
from extender.doctor.gather.fences import read_fence_keys
from extender.doctor.gather.files import named_files, named_paths, own_names, read_certificates, read_policy
from extender.doctor.gather.kubernetes import gather_kubernetes
from extender.doctor.gather.probe import gather_fence, submit_probe
from extender.doctor.gather.process import gather_hooks, gather_process
from extender.doctor.gather.slurm import gather_slurm
from extender.doctor.slurm_conf import read_text
from extender.doctor.tools import Tools, real_tools
from extender.domain.verdict import REJECTIONS
from extender.domain.views import PodView
from extender.http.scheduling import PREFIX
from extender.kube.connection import CredentialsError, connect
from extender.kube.errors import ApiError

SUBJECTS = (slurm, settings, kubernetes, cpus, gangs, devices, scheduler, files, extender)
"""In the order of the report: a subject stands behind those that it depends on."""


@dataclass(frozen=True, slots=True)
class ExaminationInputs:
    """The input of the caller: texts with the names of their files, and whether a job may be submitted."""

    slurm_conf: tuple[str, str] | None = None
    scheduler_configs: tuple[tuple[str, str], ...] = ()
    probe: bool = False
    probe_partition: str = ""
    probe_timeout_s: float = 120.0


class NotInstalled(Exception):
    """No configuration could be read from the cluster; the text says why."""


def run(config: ExtenderConfiguration, inputs: ExaminationInputs) -> list[Finding]:
    """Return every finding. Raises YamlFault for an unreadable file of kube-scheduler, InterruptedError at a signal."""
    return asyncio.run(_run(config, inputs))


async def _run(config: ExtenderConfiguration, inputs: ExaminationInputs) -> list[Finding]:
    if (task := asyncio.current_task()) is not None:
        for ends in (signal.SIGTERM, signal.SIGHUP):
            # As Ctrl-C does, so that a submitted probe is cancelled first.
            asyncio.get_running_loop().add_signal_handler(ends, task.cancel)
    tools = await real_tools(config)
    try:
        return await examine(config, tools, inputs)
    except asyncio.CancelledError as error:
        raise InterruptedError("stopped before all checks had run") from error
    finally:
        await tools.close()


async def examine(
    config: ExtenderConfiguration, tools: Tools, inputs: ExaminationInputs = ExaminationInputs()
) -> list[Finding]:
    """Fetch the facts and run all checks. Raises YamlFault for an unreadable file."""
    facts = await gather(config, tools, inputs)
    findings: list[Finding] = []
    for subject in SUBJECTS:
        findings += subject.check.judge(replace(facts, reported={one.seen for one in findings}))
    return findings


async def gather(config: ExtenderConfiguration, tools: Tools, inputs: ExaminationInputs) -> Facts:
    """Fetch all facts. Raises YamlFault for an unreadable file."""
    documents = [(name, scheduler_documents(text)) for name, text in inputs.scheduler_configs]
    found = await gather_slurm(config, tools)
    kube = await gather_kubernetes(config, tools)
    # A given configuration replaces those of the cluster: kube-scheduler's may be a file.
    configured: Sequence[SchedulerConfigFile] | None = [
        SchedulerConfigFile(name, one) for name, ones in documents for one in ones
    ]
    mounted = None
    deployments = None if kube.server.error else await gather_deployments(tools.kubernetes)
    if deployments is not None and tools.kubernetes is not None:
        configured = configured or await gather_schedulers(tools.kubernetes, deployments)
        mounted = await gather_mounts(tools.kubernetes, deployments, config.leader_election.namespace)
    elif not configured:
        configured = None
    wanted = expected_profile(config, kube)
    names = own_names(config)
    for one in configured or ():
        names.setdefault("http.tls", []).extend(scheduler.called_by(one.document, wanted))
    names = {group: list(dict.fromkeys(ones)) for group, ones in names.items()}
    named = [to for one in configured or () if (to := scheduler.called(one.document, one.where, wanted)) is not None]
    reachable = tools.kubernetes is not None and not kube.server.error
    now = tools.clock.wall()
    cluster_now = now + (kube.ahead_s or 0.0)
    waiting = [cluster_now - pod.created_at for pod in kube.pods or () if _waits(pod, config.scheduler.name)]
    return Facts(
        config=config,
        slurm=found,
        kube=kube,
        now=now,
        conf=read_text(inputs.slurm_conf[1], inputs.slurm_conf[0]) if inputs.slurm_conf else found.conf,
        schedulers=configured,
        expected=wanted,
        empty_files=[name for name, ones in documents if not ones],
        services=await gather_services(tools.kubernetes, named) if reachable and tools.kubernetes else (),
        mounts=mounted or None,
        paths=named_paths(config),
        in_cluster=bool(mounted) or tools.in_a_pod,
        files=named_files(config, tools),
        policy=read_policy(config, tools),
        certificates=read_certificates(config, tools, names),
        process=await gather_process(config, tools, waiting),
        hooks=await gather_hooks(config, tools),
        fence_reader=await read_fence_keys(tools.kubernetes, config) if reachable else None,
        devices=await gather_devices(tools.kubernetes, config, kube),
        probe=await _probed(config, found, tools, inputs) if inputs.probe else None,
    )


def expected_profile(config: ExtenderConfiguration, kube: KubeFacts) -> ExpectedProfile:
    """Return what the configuration requires of kube-scheduler's."""
    tls = config.http.tls
    return ExpectedProfile(
        config.scheduler.name,
        PREFIX,
        https=tls is not None,
        client_certificates=tls is not None and tls.client_ca_file is not None,
        other_profiles=config.scheduler.other_profiles,
        offer_timeout_s=config.limits.allocation_offer_timeout,
        bind_timeout_s=config.http.bind_timeout,
        nodes=None if kube.nodes is None else len(kube.nodes),
    )


def configuration_of_cluster(namespace: str, flags: Overrides) -> ExtenderConfiguration:
    """Return the configuration of the extender that is installed in a namespace, with these flags over it.

    Raises ConfigError if it cannot be used, NotInstalled if it cannot be read.
    """
    return asyncio.run(_configuration(namespace, flags))


_NAMESPACE = "SLURM_EXTENDER__LEADER_ELECTION__NAMESPACE"


async def _configuration(namespace: str, flags: Overrides) -> ExtenderConfiguration:
    settings = {".".join(one.path): str(one.value) for one in flags.values}
    try:
        connection = await connect(
            settings.get("kubernetes.kubeconfig"), settings.get("kubernetes.context"), connections=4, environ=os.environ
        )
    except (CredentialsError, OSError) as error:
        raise NotInstalled(str(error)) from error
    try:
        found = await gather_configuration(connection, namespace)
    except (LookupError, ApiError) as error:
        raise NotInstalled(str(error)) from error
    finally:
        await connection.close()
    # The namespace of its Lease is that of its Pods.
    return parse(found.text, found.where, from_environment({**found.environ, _NAMESPACE: namespace}) + flags)


async def _probed(
    config: ExtenderConfiguration, slurm: SlurmFacts, tools: Tools, inputs: ExaminationInputs
) -> ProbeResult:
    url = next((one.url for one in slurm.addresses if not one.error), None)
    if url is None or not slurm.token.accepted:
        return ProbeResult(config.hooks.url or "", error=slurm.trouble)
    if not config.hooks.url:
        return ProbeResult("", error="hooks.url is not set, so the job has nothing to call")
    partition, timeout_s = inputs.probe_partition, inputs.probe_timeout_s
    probed = await submit_probe(config, tools, url, partition, timeout_s, ahead_s=slurm.ahead_s or 0.0)
    return replace(probed, fence=await gather_fence(config, tools, probed))


def _waits(pod: PodView, scheduler: str) -> bool:
    """Return whether kube-scheduler should call for a Pod; it does not if its own plugins reject the Pod."""
    own = pod.scheduler_name == scheduler and not pod.node_name and not pod.gates and not pod.finished
    return own and (not pod.unschedulable or any(text in pod.unschedulable for text in REJECTIONS))
