"""The command line: `serve` runs the service, everything else looks without touching anything."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click
import yaml

from extender import __version__
from extender.config.derive import translation_policy
from extender.config.document import ExtenderConfiguration
from extender.config.faults import ConfigError
from extender.config.keys import CONFIGURATION, POLICY
from extender.config.load import load
from extender.config.override import Overrides, from_environment, from_settings
from extender.config.peers.recognise import NotRecognised, imported
from extender.config.policy_text import load_policy
from extender.config.sunk import SUNK_FLAGS, from_flags
from extender.config.values import read_duration
from extender.domain.job import JobRequest
from extender.domain.policy import TranslationPolicy
from extender.domain.translate import Refused, translate
from extender.slurm.fence_script import NOTES
from extender.slurm.fence_script import fence_script as text_of_fence_script
from extender.slurm.lock_script import lock_script as text_of_lock_script
from extender.wire.manifest import Found, pods_of
from extender.wire.meta import OddObject

F = TypeVar("F", bound=Callable[..., Any])

BAD_CONFIGURATION = 2
"""Exit code for a configuration that cannot be used, as for wrong flags; trying again is useless."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="slurm-extender")
def main() -> None:
    """Slurm places Kubernetes Pods."""


def _settings(command: F) -> F:
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set one key of the configuration, such as slurm.killWait=60s. May be repeated.",
    )(command)


def _policy_file(command: F) -> F:
    return click.option(
        "--policy",
        type=click.Path(path_type=Path),
        help="The policy file, where it is not at the place that jobs.policyFile names.",
    )(command)


def _sunk_flags(command: F) -> F:
    for flag in reversed(SUNK_FLAGS):
        command = click.option(
            f"--{flag.name}", flag.name.replace("-", "_"), default="", help=f"{flag.help} As in SUNK."
        )(command)
    return command


@main.command()
@click.option("--config", "file", type=click.Path(path_type=Path), help="The configuration; see docs/configuration.md.")
@_settings
@_sunk_flags
@click.option(
    "--dry-run",
    is_flag=True,
    help="Translate Pods, log and count what would be asked of Slurm; submit nothing and write nothing anywhere.",
)
def serve(file: Path | None, settings: tuple[str, ...], dry_run: bool, **sunk: str) -> None:
    """Run the service until SIGTERM or SIGINT."""
    given = {name.replace("_", "-"): text for name, text in sunk.items()}
    configuration = _configuration(file, from_flags(given) + from_settings(settings))
    # Only here: the Kubernetes client takes half a second to import, which no other command should wait for.
    from extender.runtime import StartError, run  # noqa: PLC0415

    try:
        run(configuration, dry=dry_run)
    except StartError as error:
        raise click.ClickException(str(error)) from error


@main.command("check-config")
@click.argument("file", type=click.Path(path_type=Path))
@_settings
@_policy_file
@click.option("--show", is_flag=True, help="Print the configuration in force, defaults included, without its secrets.")
def check_config(file: Path, settings: tuple[str, ...], policy: Path | None, show: bool) -> None:
    """Say everything that is wrong with a configuration and its policy file, environment included."""
    configuration = _configuration(file, from_settings(settings))
    _policy(configuration, policy)
    if show:
        click.echo(_yaml(configuration.model_dump(mode="json")), nl=False)
    else:
        click.echo(f"{file}: good")


@main.command("config-schema")
@click.option("--policy", is_flag=True, help="That of the policy file instead.")
def config_schema(policy: bool) -> None:
    """Print the JSON schema of the configuration."""
    click.echo(json.dumps((POLICY if policy else CONFIGURATION).json_schema, indent=2))


@main.command("import-config")
@click.argument("files", nargs=-1, required=True, type=click.File("r", encoding="utf-8"))
def import_config(files: tuple[TextIO, ...]) -> None:
    """Print the configuration that does what those of SUNK or slurm-bridge in FILES did. `-` reads standard input.

    Understood are the flags of SUNK's scheduler, as text or in its Deployment, Helm values of SUNK and slurm-bridge,
    and slurm-bridge's ConfigMap. What has no counterpart is said on standard error, key by key. docs/migrate.md goes
    through it.
    """
    try:
        plan = imported([(file.name, file.read()) for file in files])
    except (NotRecognised, UnicodeDecodeError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(_yaml(plan.document), nl=False)
    for note in plan.notes:
        click.echo(note, err=True)


@main.command("translate")
@click.argument("files", nargs=-1, required=True, type=click.File("r", encoding="utf-8"))
@click.option(
    "--config", "config", type=click.Path(path_type=Path), help="Whose policy holds; without it, the default one."
)
@_settings
@_policy_file
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
    """
    said, scheduler = TranslationPolicy(), "slurm"
    if config is not None:
        configuration = _configuration(config, from_settings(settings))
        said, scheduler = _policy(configuration, policy), configuration.scheduler.name
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
    refused = [one for one in found if not _shown(one, said, scheduler, of_namespace)]
    if refused:
        sys.exit(1)


@main.command()
def demo() -> None:
    """Show it: the extender against a simulated Kubernetes and Slurm, on this machine, for a minute."""
    from extender.sim.demo.program import DemoFailed, run  # noqa: PLC0415 - the service needs no simulator

    try:
        run(sys.stdout)
    except DemoFailed as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(130)


@main.command()
@click.option(
    "--seed", type=int, help="The run: the same seed gives the same run to the byte. Without it, one is drawn."
)
@click.option("--seeds", metavar="FROM:TO", help="Many runs instead, TO not included; prints one line for each.")
@click.option("--pods", default=30, show_default=True, type=click.IntRange(min=1), help="Most Pods that are created.")
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(min=1), help="Nodes of 16 CPUs.")
@click.option(
    "--days",
    default=0.02,
    show_default=True,
    type=click.FloatRange(min=0.001),
    help="Virtual days of work and trouble.",
)
@click.option(
    "--slurm",
    default="26.05.5",
    show_default=True,
    metavar="RELEASE",
    help="Which Slurm, from 23.11 to 26.05; `each`: one after the other, by the seed.",
)
@click.option(
    "--names",
    default="same",
    show_default=True,
    help="Which Node is which node of Slurm: by the same name, a label, or the Pod of a slurmd (slurmd); `each`: one "
    "after the other, by the seed.",
)
@click.option(
    "--foreign",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Most Pods that another scheduler binds to the nodes; Slurm is to hold what they use (foreignPods).",
)
@click.option(
    "--faults",
    default="all",
    show_default=True,
    help="none, all, drawn (some, by the seed), or some of network,slurm,kubernetes,crashes,operators,clock,amnesia,"
    "stale,outages,epilogs,scope,replicas,restores.",
)
@click.option("--story", type=click.Path(path_type=Path), help="Write everything that happened to this file.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="With --seeds: processes.")
@click.option(
    "--state", type=click.Path(path_type=Path), help="With --seeds: keep results here, and leave out those there are."
)
@click.option("--report", type=click.Path(path_type=Path), help="With --seeds: write a page about them.")
def simulate(seed: int | None, seeds: str | None, faults: str, **given: Any) -> None:
    """Run the extender in a simulated cluster, on virtual time, and hold its promises against what happens.

    Exit code 1 where one is broken: its story is printed then, and the command that shows it again.
    """
    # Only here: nothing that serves has the simulator in its memory.
    from extender.sim.command import run_many, run_one  # noqa: PLC0415

    try:
        kept = run_one(seed, faults, **given) if seeds is None else run_many(seeds, faults, **given)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not kept:
        sys.exit(1)


@main.command()
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="The extender's configuration. Without it, that of the extender that is installed in the cluster.",
)
@_settings
@click.option("--namespace", "-n", default="slurm-extender", show_default=True, help="Where that one is.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--slurm-conf",
    type=click.File("r", encoding="utf-8"),
    help="slurm.conf, or what `scontrol show config` prints; `-` is standard input. Before Slurm 26.05 slurmrestd does "
    "not show it.",
)
@click.option(
    "--scheduler-config",
    "schedulers",
    multiple=True,
    type=click.File("r", encoding="utf-8"),
    help="kube-scheduler's configuration, or the ConfigMap that holds it, where this account may not read it.",
)
@click.option("--submit-probe", "probe", is_flag=True, help="Submit a job that calls the hooks from a node.")
@click.option("--probe-partition", default="", metavar="NAME", help="Where; otherwise as a Pod that names none.")
@click.option("--probe-timeout", default=120.0, show_default=True, type=click.FloatRange(min=1), help="Seconds for it.")
def doctor(  # noqa: PLR0917 - click names them
    file: Path | None,
    settings: tuple[str, ...],
    namespace: str,
    output: str,
    slurm_conf: TextIO | None,
    schedulers: tuple[TextIO, ...],
    probe: bool,
    probe_partition: str,
    probe_timeout: float,
) -> None:
    """Say what of Slurm, Kubernetes and this configuration does not go together, and what to do about it.

    It changes nothing. From a laptop it sees what the kubeconfig lets it see; what it could not see it says. Exit code
    1 where something is wrong, 2 where it could not look at all. docs/doctor.md explains the checks.
    """
    from extender.doctor.examination import Given  # noqa: PLC0415 - imports the Kubernetes client, as `serve` does
    from extender.doctor.finding import Verdict, worst  # noqa: PLC0415
    from extender.doctor.report import as_json, as_text  # noqa: PLC0415
    from extender.doctor.run import NotInstalled, configuration_of_cluster, run  # noqa: PLC0415

    try:
        flags = from_environment(os.environ) + from_settings(settings)
        configuration = load(file, flags) if file is not None else configuration_of_cluster(namespace, flags)
    except ConfigError as error:
        for fault in error.faults:
            click.echo(fault, err=True)
        sys.exit(BAD_CONFIGURATION)
    except NotInstalled as error:
        click.echo(f"no --config is given, and the cluster tells of none: {error}", err=True)
        sys.exit(BAD_CONFIGURATION)
    given = Given(
        slurm_conf=None if slurm_conf is None else (slurm_conf.name, slurm_conf.read()),
        scheduler_configs=tuple((one.name, one.read()) for one in schedulers),
        probe=probe,
        probe_partition=probe_partition,
        probe_timeout_s=probe_timeout,
    )
    try:
        findings = run(configuration, given)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        click.echo(f"a file that was given cannot be read: {error}", err=True)
        sys.exit(BAD_CONFIGURATION)
    click.echo(as_json(findings) if output == "json" else as_text(findings), nl=False)
    if worst(findings) is Verdict.WRONG:
        sys.exit(1)


def _of_a_node_script(command: F) -> F:
    """What every script on Slurm's nodes is told."""
    command = click.option(
        "--slurm-conf",
        default="",
        help="Where slurm.conf is, if Slurm's commands do not find it without SLURM_CONF: slurmctld does not hand "
        "that on.",
    )(command)
    command = click.option(
        "--key-file",
        default="/etc/slurm/slurm-extender.key",
        show_default=True,
        help="Where the site key (hooks.siteKeyFile) is on a node; readable by root and SlurmUser alone.",
    )(command)
    return click.option(
        "--hooks", required=True, metavar="URL", help="The hooks as Slurm's nodes reach them (hooks.url)."
    )(command)


@main.command("fence-script")
@_of_a_node_script
@click.option(
    "--hold",
    type=click.IntRange(4, 12),
    default=8,
    show_default=True,
    help="Seconds for which an Epilog holds a node at most before it is drained.",
)
@click.option(
    "--notes",
    default=NOTES,
    show_default=True,
    help="Folder on slurmctld's machine that is SlurmUser's; where slurmctld has a backup, one that both see.",
)
def fence_script(hooks: str, key_file: str, hold: int, notes: str, slurm_conf: str) -> None:
    """Print the Epilog of nodes with slurmd, which is PrologSlurmctld and EpilogSlurmctld too.

    docs/fences.md says what it holds.
    """
    click.echo(text_of_fence_script(hooks, key_file, hold, notes, slurm_conf), nl=False)


@main.command("lock-script")
@_of_a_node_script
@click.option(
    "--hold",
    type=click.IntRange(1, 30),
    default=5,
    show_default=True,
    help="Seconds for which a job waits at most until its Node is locked.",
)
def lock_script(hooks: str, key_file: str, hold: int, slurm_conf: str) -> None:
    """Print the Prolog and Epilog that lock the Node of a job that is no placeholder.

    docs/nodes.md says how.
    """
    click.echo(text_of_lock_script(hooks, key_file, hold, slurm_conf), nl=False)


@main.command()
@click.option("--namespace", "-n", default="slurm-extender", show_default=True, help="Whose Secrets and Services.")
@click.option("--kubeconfig", help="Not given: in a Pod its account, else where kubectl looks.")
@click.option("--context", help="A context of the kubeconfig.")
@click.option("--san", "names", multiple=True, metavar="NAME", help="One more name or address of the extender's doors.")
@click.option(
    "--overlap",
    default="24h",
    show_default=True,
    help="How long the next authority is trusted everywhere before it signs.",
)
@click.option("--renew", is_flag=True, help="Make every certificate anew, and the next authority too.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Keep them in this folder instead.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def certificates(namespace: str, names: tuple[str, ...], overlap: str, out: Path | None, **given: Any) -> None:
    """Make the certificates of the extender and of kube-scheduler, and renew those that end soon.

    Run it as often as you like: what is good stays. docs/certificates.md says what is kept where.
    """
    # Only here: nothing else needs the packages behind it.
    from extender.certificates import command  # noqa: PLC0415
    from extender.certificates.renewal import Order  # noqa: PLC0415

    try:
        wait = timedelta(seconds=read_duration(overlap))
    except ValueError as error:
        raise click.UsageError(f"--overlap: {error}") from error
    order = Order(namespace, wait, names, renew=given["renew"], dry_run=given["dry_run"])
    now = datetime.fromtimestamp(time.time(), UTC)  # noqa: TID251 - certificates end by the clock of the world
    try:
        if out is not None:
            done = command.in_folder(order, out, now)
        else:
            cluster = command.Cluster(given["kubeconfig"], given["context"], os.environ)
            done = command.in_secrets(order, cluster, now)
    except command.CertificatesError as error:
        raise click.ClickException(str(error)) from error
    for line in done or ["every certificate is good"]:
        click.echo(line)


@main.command()
@click.option("--config", "file", type=click.Path(path_type=Path), help="That of the extender which is taken away.")
@_settings
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--force", is_flag=True, help="Go on although an extender leads, and lift drains under Pods without job.")
@click.option(
    "--keep-gates", is_flag=True, help="Leave our scheduling gate on Pods that wait, for the next installation."
)
@click.option(
    "--cancel-running", is_flag=True, help="Evict the Pods that run, and cancel their jobs once they are gone."
)
def uninstall(  # noqa: PLR0917 - click names them
    file: Path | None, settings: tuple[str, ...], dry_run: bool, force: bool, keep_gates: bool, cancel_running: bool
) -> None:
    """Hand everything back: gates, taints, cordons, drains, jobs, registered nodes. May be run again at any time.

    Exit code 1 where something is left that another run or a person has to see to. docs/uninstall.md says more.
    """
    configuration = _configuration(file, from_settings(settings))
    # Only here: imports the Kubernetes client, as `serve` does.
    import asyncio  # noqa: PLC0415

    from extender.uninstall import (  # noqa: PLC0415
        CannotLookError,
        HandBackOptions,
        StillLedError,
    )
    from extender.uninstall import uninstall as run  # noqa: PLC0415

    options = HandBackOptions(dry_run, force, keep_gates, cancel_running)
    try:
        clean = asyncio.run(run(configuration, options, click.echo))
    except (StillLedError, CannotLookError) as error:
        raise click.ClickException(str(error)) from error
    if not clean:
        sys.exit(1)


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(__version__)


def _policy(configuration: ExtenderConfiguration, file: Path | None) -> TranslationPolicy:
    named = configuration.jobs.policy_file
    if file is None and named is None:
        return translation_policy(configuration)
    try:
        return load_policy(file or Path(str(named)), configuration)
    except ConfigError as error:
        for fault in error.faults:
            click.echo(fault, err=True)
        sys.exit(BAD_CONFIGURATION)


def _configuration(file: Path | None, flags: Overrides) -> ExtenderConfiguration:
    try:
        return load(file, from_environment(os.environ) + flags)
    except ConfigError as error:
        for fault in error.faults:
            click.echo(fault, err=True)
        sys.exit(BAD_CONFIGURATION)


def _pods(name: str, text: Iterable[str], namespace: str) -> list[Found]:
    try:
        documents = list(yaml.safe_load_all("".join(text)))
        return [found for document in documents for found in pods_of(document, namespace)]
    except (yaml.YAMLError, OddObject, UnicodeDecodeError) as error:
        raise click.ClickException(f"{name}: {error}") from error


def _shown(found: Found, policy: TranslationPolicy, scheduler: str, labels: Mapping[str, str]) -> bool:
    """Print one translation; whether there is a job."""
    pod = found.pod
    now = time.time()  # noqa: TID251 - a command has no other clock; it only decides whether a deadline has passed
    outcome = translate([pod], found.root_annotations, policy, now, labels)
    click.echo(f"---\n# {found.origin}, namespace {pod.namespace}")
    if pod.scheduler_name != scheduler:
        wanted = pod.scheduler_name or "the default one"
        click.echo(f"# its schedulerName is {wanted}, not {scheduler}: as it stands it does not come to Slurm")
    if isinstance(outcome, Refused):
        click.echo(_yaml({"refused": list(outcome.faults)}), nl=False)
        return False
    for notice in outcome.notices:
        click.echo(f"# {notice.text}")
    click.echo(_yaml({"job": _said(outcome.request)}), nl=False)
    return True


def _said(request: JobRequest) -> dict[str, Any]:
    """What is sent: everything that is not left to Slurm."""
    said: dict[str, Any] = {}
    for field in fields(request):
        value = getattr(request, field.name)
        if value is None or value is False or value in ("", (), {}):
            continue
        said[field.name] = (
            list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, dict) else value
        )
    return said


def _yaml(value: Any) -> str:
    # By way of JSON: closed sets become their words.
    plain = json.loads(json.dumps(value, default=_plain))
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=10**6)  # no folding
    return text


def _plain(value: Any) -> Any:
    """What JSON has no form for: a user with a group, a map that cannot be changed."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else dict(value)
