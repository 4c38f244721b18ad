"""`slurm-extender doctor`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO

import click

from extender.cli.options import BAD_CONFIGURATION, refuse, settings_option
from extender.config.faults import ConfigError
from extender.config.load import from_environment, from_settings, load
from extender.config.yaml_text import YamlFault


@click.command(
    short_help="Check Slurm, Kubernetes and the settings", context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="Configuration of the extender. Default: the one that is installed in the cluster.",
)
@settings_option
@click.option("--namespace", "-n", default="slurm-extender", show_default=True, help="Namespace of the extender.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--slurm-conf",
    type=click.File("r", encoding="utf-8"),
    help="slurm.conf, or the output of `scontrol show config`; `-` is standard input. Needed before Slurm 26.05, whose "
    "slurmrestd does not show it.",
)
@click.option(
    "--scheduler-config",
    "schedulers",
    multiple=True,
    type=click.File("r", encoding="utf-8"),
    help="Configuration of kube-scheduler, or the ConfigMap that holds it, if this account may not read it.",
)
@click.option("--submit-probe", "probe", is_flag=True, help="Submit a job that calls the hooks from a node.")
@click.option("--probe-partition", default="", metavar="NAME", help="Partition of that job.")
@click.option(
    "--probe-timeout", default=120.0, show_default=True, type=click.FloatRange(min=1), help="Seconds to wait."
)
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
    """Diagnose the installation: check Slurm, Kubernetes and the configuration for problems.

    The command changes nothing. Checks that the kubeconfig's permissions do not allow are reported as skipped. Exit
    code 1: at least one error; 2: the checks could not run. docs/reference/doctor.md explains the checks.
    """
    from extender.doctor.finding import Verdict, as_json, as_text, worst  # noqa: PLC0415 - as the next
    from extender.doctor.run import (  # noqa: PLC0415 - imports the Kubernetes client, as `serve` does
        ExaminationInputs,
        NotInstalled,
        configuration_of_cluster,
        run,
    )

    try:
        flags = from_environment(os.environ) + from_settings(settings)
        configuration = load(file, flags) if file is not None else configuration_of_cluster(namespace, flags)
    except ConfigError as error:
        refuse(error)
    except NotInstalled as error:
        click.echo(f"no --config is given, and the cluster has no configuration: {error}", err=True)
        sys.exit(BAD_CONFIGURATION)
    try:
        given = ExaminationInputs(
            slurm_conf=None if slurm_conf is None else (slurm_conf.name, slurm_conf.read()),
            scheduler_configs=tuple((one.name, one.read()) for one in schedulers),
            probe=probe,
            probe_partition=probe_partition,
            probe_timeout_s=probe_timeout,
        )
        if probe:
            click.echo(f"The probe job may wait in Slurm for up to {probe_timeout:g} s ...", err=True)
        findings = run(configuration, given)
    except InterruptedError as error:
        click.echo(error, err=True)
        sys.exit(BAD_CONFIGURATION)
    except (YamlFault, UnicodeDecodeError) as error:
        click.echo(f"a file cannot be read: {error}", err=True)
        sys.exit(BAD_CONFIGURATION)
    click.echo(as_json(findings) if output == "json" else as_text(findings), nl=False)
    if worst(findings) is Verdict.ERROR:
        sys.exit(1)
