"""`slurm-extender translate`: the job that a Pod would become."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TextIO

import click

from extender.cli.options import configured, policy_of, policy_option, settings_option
from extender.cli.yaml_output import as_yaml
from extender.config.jobs import Gangs
from extender.config.load import from_settings
from extender.config.yaml_text import YamlFault, read_stream
from extender.domain.gangs.context import GangContext
from extender.domain.gangs.membership import Membership, gang_title
from extender.domain.gangs.recognition import GangRefused, recognise
from extender.domain.jobs.job import JobRequest
from extender.domain.policy.site import TranslationPolicy
from extender.domain.printable import printable
from extender.domain.translation.translate import TranslationRefused, translate
from extender.kube.wire.fields import OddObject
from extender.kube.wire.manifest import ManifestPod, pods_of

LONGEST_ERROR = 1000
"""Characters of what is wrong with a manifest that are shown."""


@click.command("translate", short_help="Print the Slurm jobs of Pods in manifests")
@click.argument("files", nargs=-1, required=True, type=click.File("r", encoding="utf-8"))
@click.option(
    "--config", "config", type=click.Path(path_type=Path), help="Whose policy holds; without it, the default one."
)
@settings_option
@policy_option
@click.option("--namespace", "-n", default="default", show_default=True, help="For manifests that name none.")
@click.option(
    "--namespace-label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="A label of the Namespace, for the selectors of the policy. May be repeated.",
)
def translate_manifests(  # noqa: PLR0917 - click names them
    files: tuple[TextIO, ...],
    config: Path | None,
    settings: tuple[str, ...],
    policy: Path | None,
    namespace: str,
    labels: tuple[str, ...],
) -> None:
    """Print the Slurm job of each Pod in FILES, or what is wrong with it. `-` reads standard input.

    Workloads (Deployment, Job, CronJob, LeaderWorkerSet ...) are read through their templates. Nothing is submitted.

    \b
    Examples:
      slurm-extender translate pod.yaml
      kubectl get job train -o yaml | slurm-extender translate --config config.yaml -
    """
    said, scheduler, gangs = TranslationPolicy(), "slurm", Gangs()
    if config is not None:
        configuration = configured(config, from_settings(settings))
        said, scheduler = policy_of(configuration, policy), configuration.scheduler.name
        gangs = configuration.gangs
    elif settings or policy is not None:
        raise click.UsageError("--set and --policy need --config")
    if odd := [label for label in labels if "=" not in label]:
        raise click.UsageError(f"--namespace-label {odd[0]}: it must read key=value")
    of_namespace = dict(label.split("=", 1) for label in labels)
    if said.pods.asks_of_namespaces and not labels:
        click.echo("# the policy asks for labels of Namespaces; without --namespace-label they have none here")
    found = [one for file in files for one in _pods(file.name, file, namespace)]
    if not found:
        raise click.ClickException("there is no Pod and no workload in what was given")
    refused = [one for one in found if not _shown(one, said, scheduler, of_namespace, gangs)]
    if refused:
        sys.exit(1)


def _pods(name: str, text: Iterable[str], namespace: str) -> list[ManifestPod]:
    try:
        documents = read_stream("".join(text))
        return [found for document in documents for found in pods_of(document, namespace)]
    except (YamlFault, OddObject, UnicodeDecodeError) as error:
        raise click.ClickException(printable(f"{name}: {str(error)[:LONGEST_ERROR]}")) from error


def _shown(
    found: ManifestPod, policy: TranslationPolicy, scheduler: str, labels: Mapping[str, str], gangs: Gangs
) -> bool:
    """Print one translation; whether there is a job."""
    pod = found.pod
    now = time.time()  # noqa: TID251 - a command has no other clock; it only decides whether a deadline has passed
    outcome = translate([pod], found.root_annotations, policy, now, labels, job_deadline_s=found.job_deadline_s)
    context = GangContext(found.controllers, jobs=gangs.jobs, largest=gangs.largest)
    gang = recognise(found.created, context)
    if isinstance(gang, GangRefused):
        faults = outcome.faults if isinstance(outcome, TranslationRefused) else ()
        outcome = TranslationRefused((gang.text, *faults))
    click.echo("---")
    click.echo(printable(f"# {found.origin}, namespace {pod.namespace}"))
    if pod.scheduler_name != scheduler:
        wanted = pod.scheduler_name or "not set"
        warning = f"schedulerName is {wanted}, not {scheduler}; Slurm would not schedule this Pod"
        click.echo(printable(f"# warning: {warning}"))
    if isinstance(outcome, TranslationRefused):
        click.echo(as_yaml({"refused": list(outcome.faults)}), nl=False)
        return False
    for notice in outcome.notices:
        click.echo(printable(f"# {notice.text}"))
    request = outcome.request
    if isinstance(gang, Membership) and gang.expected is not None:
        click.echo(printable(f"# {gang.name} is a gang: {gang.expected} Pods get this one job, and start together"))
        title = gang_title(gang) if request.title == pod.full_name else request.title
        request = replace(request, members=gang.expected, title=title)
    click.echo(as_yaml({"job": _said(request)}), nl=False)
    return True


def _said(request: JobRequest) -> dict[str, Any]:
    """Return the fields of the request that are sent, without those that are left to Slurm."""
    said: dict[str, Any] = {}
    for field in fields(request):
        value = getattr(request, field.name)
        if value is None or value is False or value in ("", (), {}):
            continue
        said[field.name] = (
            list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, dict) else value
        )
    return said
