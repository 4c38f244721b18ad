"""Print the jobs that the Pods of manifests would become: `slurm-extender translate`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO

import click

from extender.cli.manifest_jobs import ManifestWorkload, Site, counted, grouped, job_of
from extender.cli.options import configured, policy_of, policy_option, settings_option
from extender.cli.sbatch import sbatch_line
from extender.cli.yaml_output import as_yaml
from extender.config.jobs import Gangs
from extender.config.load import from_settings
from extender.config.yaml_text import YamlFault, read_stream
from extender.domain.gangs.membership import POD_GROUPS, Membership
from extender.domain.gangs.pod_groups import PodGroupView
from extender.domain.jobs.job import JobRequest
from extender.domain.policy.site import TranslationPolicy
from extender.domain.printable import printable
from extender.domain.translation.translate import TranslationRefused
from extender.domain.wellknown import GANG
from extender.kube.wire.fields import MalformedObject
from extender.kube.wire.manifest import ManifestObject, ManifestPod, SkippedObject, read_manifest

LONGEST_ERROR = 1000
"""Characters of what is wrong with a manifest that are shown."""

LONGEST_REMARK = 2000
"""Characters of a comment: names and settings in it come from the manifest."""

MOST_NAMED = 20
"""Objects of one workload, and skipped objects, that are named."""


@click.command("translate", short_help="Print the Slurm jobs of Pods in manifests")
@click.argument("files", nargs=-1, required=True, type=click.File("r", encoding="utf-8"))
@click.option(
    "--config",
    "config",
    type=click.Path(path_type=Path),
    help="Configuration whose policy applies. Default: the default policy.",
)
@settings_option
@policy_option
@click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of manifests without one.")
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

    Workloads (Deployment, Job, CronJob, LeaderWorkerSet ...) and custom resources are read through their Pod
    templates. The comments say how many Pods and jobs there will be, which Pods start together, what is rounded, the
    equivalent sbatch line, and which objects were skipped. Nothing is submitted.

    \b
    Examples:
      slurm-extender translate pod.yaml
      kubectl get job train -o yaml | slurm-extender translate --config config.yaml -
    """
    translation_policy, scheduler, gangs = TranslationPolicy(), "slurm", Gangs()
    if config is not None:
        configuration = configured(config, from_settings(settings))
        translation_policy, scheduler = policy_of(configuration, policy), configuration.scheduler.name
        gangs = configuration.gangs
    elif settings or policy is not None:
        raise click.UsageError("--set and --policy need --config")
    if malformed := [label for label in labels if "=" not in label]:
        raise click.UsageError(f"--namespace-label {malformed[0]}: it must read key=value")
    of_namespace = dict(label.split("=", 1) for label in labels)
    if translation_policy.pods.needs_namespace_labels and not labels:
        click.echo("# the policy asks for labels of Namespaces; without --namespace-label they have none here")
    now = time.time()  # noqa: TID251 - a command has no other clock; it only decides whether a deadline has passed
    read = [one for file in files for one in _objects(file.name, file, namespace)]
    groups = [one for one in read if isinstance(one, PodGroupView)]
    site = Site(translation_policy, scheduler, gangs, of_namespace, now, groups, configured=config is not None)
    skipped = [one for one in read if isinstance(one, SkippedObject)]
    skipped += [_unread(one) for one in groups if one.kind.source not in site.groups_read]
    workloads = grouped([one for one in read if isinstance(one, ManifestPod)], site)
    refused = [one for one in workloads if not _shown(one, site)]
    _show_skipped(skipped)
    if not workloads:
        raise click.ClickException("the input has no Pod and no workload")
    if len(workloads) > 1 or skipped:
        _show_total(workloads, len(refused), len(skipped))
    if refused:
        sys.exit(1)


def _objects(name: str, text: Iterable[str], namespace: str) -> list[ManifestObject]:
    try:
        documents = read_stream("".join(text))
        return [found for document in documents for found in read_manifest(document, namespace)]
    except (YamlFault, MalformedObject, UnicodeDecodeError) as error:
        raise click.ClickException(printable(f"{name}: {str(error)[:LONGEST_ERROR]}")) from error


def _shown(workload: ManifestWorkload, site: Site) -> bool:
    """Print one workload; whether it gets a job."""
    outcome, rounded = job_of(workload, site)
    click.echo("---")
    for found in workload.members[:MOST_NAMED]:
        _remark(f"{found.origin}, namespace {found.pod.namespace}")
    if (more := len(workload.members) - MOST_NAMED) > 0:
        _remark(f"and {more} more")
    for name in dict.fromkeys(found.pod.scheduler_name for found in workload.members):
        if name != site.scheduler:
            warning = f"schedulerName is {name or 'not set'}, not {site.scheduler}; Slurm would not schedule this Pod"
            _remark(f"warning: {warning}")
    if isinstance(outcome, TranslationRefused):
        click.echo(as_yaml({"refused": list(outcome.faults)}), nl=False)
        return False
    _remark(counted(workload))
    if isinstance(workload.gang, Membership) and workload.gang.unknown and workload.gang.source in POD_GROUPS:
        _remark(f"{workload.gang.name} is not in the input; it states how many of these Pods start together")
    elif isinstance(workload.gang, Membership) and workload.gang.unknown:
        _remark(f"a gang whose size is not known: {workload.gang.unknown}")
    elif workload.parallel:
        _remark(f"if the Pods need each other, make them a gang by the annotation {GANG} (docs/gangs.md)")
    if rounded:
        _remark(f"rounded up: {'; '.join(rounded)}")
    for notice in outcome.notices:
        _remark(notice.text)
    _remark(sbatch_line(outcome.request))
    click.echo(as_yaml({"job": _request_fields(outcome.request)}), nl=False)
    return True


def _unread(group: PodGroupView) -> SkippedObject:
    why = f"gangs.podGroups of the configuration does not name {group.kind.api}, so it makes no gang"
    return SkippedObject(f"PodGroup {group.name}", why)


def _show_skipped(skipped: Sequence[SkippedObject]) -> None:
    if skipped:
        click.echo("---")
    for one in skipped[:MOST_NAMED]:
        _remark(f"skipped {one.origin}: {one.why}")
    if (more := len(skipped) - MOST_NAMED) > 0:
        _remark(f"skipped {more} more objects")


def _show_total(workloads: Sequence[ManifestWorkload], refused: int, skipped: int) -> None:
    pods = sum(one.pods or 0 for one in workloads)
    jobs = sum(one.jobs or 0 for one in workloads)
    parts = [f"Pods: {pods}", f"Slurm jobs: {jobs}"]
    if any(one.pods is None for one in workloads):
        parts.append("and one for each matching Node of a DaemonSet")
    if refused:
        parts.append(f"refused: {refused} of {len(workloads)} workloads")
    if skipped:
        parts.append(f"skipped objects: {skipped}")
    _remark(f"total: {', '.join(parts)}")


def _remark(text: str) -> None:
    """Print foreign text as one line of a comment."""
    shown = text if len(text) <= LONGEST_REMARK else f"{text[: LONGEST_REMARK - 3]}..."
    click.echo(printable(f"# {shown}"))


def _request_fields(request: JobRequest) -> dict[str, Any]:
    """Return the fields of the request that are sent, without those that are left to Slurm."""
    fields_set: dict[str, Any] = {}
    for field in fields(request):
        value = getattr(request, field.name)
        if value is None or value is False or value in ("", (), {}):
            continue
        fields_set[field.name] = (
            list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, dict) else value
        )
    return fields_set
