"""Runs the examination with real streams, and says what came of it."""

from __future__ import annotations

import asyncio

from extender.config.document import ExtenderConfiguration
from extender.doctor.examination import Given, examine
from extender.doctor.finding import Finding
from extender.doctor.tools import real_tools


def run(config: ExtenderConfiguration, given: Given) -> list[Finding]:
    """Every finding. Raises yaml.YAMLError for a file of kube-scheduler that is none."""
    return asyncio.run(_run(config, given))


async def _run(config: ExtenderConfiguration, given: Given) -> list[Finding]:
    tools = await real_tools(config)
    try:
        return await examine(config, tools, given)
    finally:
        await tools.close()
