"""Ask the running extender and its hooks, at the addresses of the configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import httpx
from prometheus_client.parser import text_string_to_metric_families

from extender.config.document import ExtenderConfiguration
from extender.config.values import BindAddress
from extender.doctor.facts import HealthLine, HooksAsConfigured, RunningExtender
from extender.doctor.tools import Tools
from extender.http.hooks import PREFIX as HOOKS
from extender.observability.metrics.described import PREFIX

TIMEOUT_S = 5.0

_LINE = re.compile(r"\[([+-])\](\S+) (.*?)( \(for information\))?")


async def gather_process(config: ExtenderConfiguration, tools: Tools, waiting_s: Sequence[float]) -> RunningExtender:
    """Read `/readyz?verbose` and `/metrics`. `waiting_s`: ages of the Pods that kube-scheduler should call for."""
    shown = config.observability
    async with httpx.AsyncClient(transport=tools.http, timeout=TIMEOUT_S, trust_env=False) as client:
        url = f"http://{local_address(shown.health_bind)}/readyz?verbose"
        try:
            answer = await client.get(url)
        except httpx.HTTPError as error:
            return RunningExtender(error=f"{url}: {str(error) or type(error).__name__}")
        lines = tuple(
            HealthLine(found[2], found[1] == "+", found[3], required=not found[4])
            for line in answer.text.splitlines()
            if (found := _LINE.fullmatch(line))
        )
        if not lines:
            return RunningExtender(error=f"{url}: the answer ({answer.status_code}) is not that of an extender")
        try:
            metrics = await client.get(f"http://{local_address(shown.metrics_bind)}/metrics")
        except httpx.HTTPError:
            return RunningExtender(lines=lines, waiting_s=waiting_s)
    return replace(_counted(metrics.text, tools.clock.wall()), lines=lines, waiting_s=waiting_s)


async def gather_hooks(config: ExtenderConfiguration, tools: Tools) -> HooksAsConfigured:
    """Call hooks.url as scripts do."""
    hooks = config.hooks
    configured = HooksAsConfigured(
        bound=hooks.bind is not None,
        url=hooks.url or "",
        tls=hooks.tls is not None,
        key_file=hooks.key_file is not None or hooks.key is not None,
        site_key_file=hooks.site_key_file is not None,
    )
    if not hooks.url:
        return configured
    # Only a node shows which certificates nodes trust; here it matters that the hooks answer.
    async with httpx.AsyncClient(transport=tools.http, timeout=TIMEOUT_S, trust_env=False, verify=False) as client:  # noqa: S501
        try:
            answer = await client.get(f"{hooks.url.rstrip('/')}{HOOKS}/jobs/1/started")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return replace(configured, error=str(error) or type(error).__name__)
    # The route takes POST only: no other program answers so, and a GET changes nothing.
    hooks_answered = answer.status_code == httpx.codes.METHOD_NOT_ALLOWED and "POST" in answer.headers.get("allow", "")
    return replace(configured, answer=answer.status_code, hooks_answered=hooks_answered)


def local_address(bind: BindAddress) -> str:
    """Return the address by which this machine calls it."""
    return str(BindAddress(bind.host if bind.host not in {"", "0.0.0.0", "::"} else "127.0.0.1", bind.port))  # noqa: S104


def _counted(text: str, now: float) -> RunningExtender:
    """Read its metrics; nothing is known if the text is no metrics."""
    known = RunningExtender()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == f"{PREFIX}_filter_duration_seconds_count":
                    known = replace(known, filters=(known.filters or 0) + int(sample.value))
                elif sample.name == f"{PREFIX}_leader":
                    known = replace(known, leads=bool(sample.value))
                elif sample.name == f"{PREFIX}_last_filter_timestamp_seconds":
                    known = replace(known, quiet_s=max(0.0, now - sample.value))
            if family.name == f"{PREFIX}_filter_duration_seconds":
                known = replace(known, filters=known.filters or 0)
    except ValueError:
        return RunningExtender()
    return known
