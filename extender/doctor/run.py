"""Runs the examination with real streams, and says what came of it."""

from __future__ import annotations

import asyncio
import os
import signal

from extender.config.document import ExtenderConfiguration
from extender.config.load import parse
from extender.config.override import Overrides, from_environment
from extender.doctor.examination import ExaminationInputs, examine
from extender.doctor.finding import Finding
from extender.doctor.gather.deployments import ask_configuration
from extender.doctor.tools import real_tools
from extender.kube.connection import CredentialsError, connect
from extender.kube.errors import ApiError


def run(config: ExtenderConfiguration, given: ExaminationInputs) -> list[Finding]:
    """Every finding. Raises YamlFault for a file of kube-scheduler that is none, InterruptedError at a signal."""
    return asyncio.run(_run(config, given))


def configuration_of_cluster(namespace: str, flags: Overrides) -> ExtenderConfiguration:
    """The configuration of the extender that is installed in a namespace, with these flags laid over it.

    Raises ConfigError where it cannot be used, NotInstalled where it cannot be read.
    """
    return asyncio.run(_configuration(namespace, flags))


class NotInstalled(Exception):
    """No configuration could be read in the cluster; the text says why."""


async def _configuration(namespace: str, flags: Overrides) -> ExtenderConfiguration:
    said = {".".join(one.path): str(one.value) for one in flags.values}
    try:
        connection = await connect(
            said.get("kubernetes.kubeconfig"), said.get("kubernetes.context"), connections=4, environ=os.environ
        )
    except CredentialsError as error:
        raise NotInstalled(str(error)) from error
    try:
        found = await ask_configuration(connection, namespace)
    except (LookupError, ApiError) as error:
        raise NotInstalled(str(error)) from error
    finally:
        await connection.close()
    # The namespace of its Lease is that of its Pods.
    return parse(found.text, found.where, from_environment({**found.environ, _NAMESPACE: namespace}) + flags)


_NAMESPACE = "SLURM_EXTENDER__LEADER_ELECTION__NAMESPACE"


async def _run(config: ExtenderConfiguration, given: ExaminationInputs) -> list[Finding]:
    if (looking := asyncio.current_task()) is not None:
        for ends in (signal.SIGTERM, signal.SIGHUP):
            # As Ctrl-C does: what was submitted is cancelled first.
            asyncio.get_running_loop().add_signal_handler(ends, looking.cancel)
    tools = await real_tools(config)
    try:
        return await examine(config, tools, given)
    except asyncio.CancelledError as error:
        raise InterruptedError("ended before it had looked at everything") from error
    finally:
        await tools.close()
