"""`doctor`: all that `slurm-extender doctor` does, with kubectl's flags and forms of output."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout

import click

from kubectl_slurm.completion import context_names
from kubectl_slurm.group import PluginCommand
from kubectl_slurm.output import Form, Printer

TEXT = "text"
"""The name of readable output in `slurm-extender doctor`."""


REPLACED = frozenset({"namespace", "output"})
"""Parameters of `slurm-extender doctor` for which this command has its own."""


class DoctorCommand(PluginCommand):
    """`doctor`, whose help lists its own flags and those that it passes on to `slurm-extender doctor`."""

    left_out = frozenset()

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage: words that are no flags are refused later."""
        del ctx
        return ["[OPTIONS]"]

    def options_in_help(self) -> list[click.Option]:
        """Return the flags of both programs."""
        passed = (one for one in _of_service().params if isinstance(one, click.Option))
        return [*super().options_in_help(), *(one for one in passed if one.name not in REPLACED)]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing: this command does not take the flags that `options` lists."""


@click.command(
    cls=DoctorCommand,
    short_help="Check Slurm, Kubernetes and the settings",
    context_settings={"ignore_unknown_options": True},
)
@click.option("--kubeconfig", default="", metavar="FILE", help="Path of the kubeconfig.")
@click.option("--context", "chosen", default="", shell_complete=context_names, help="Context of the kubeconfig.")
@click.option("-n", "--namespace", "of_pods", default="", hidden=True)
@click.option("--extender-namespace", default="slurm-extender", show_default=True, help="Namespace of the extender.")
@click.option(
    "-o",
    "--output",
    default=TEXT,
    type=click.Choice([TEXT, *map(str, Form)]),
    show_default=True,
    help="Output format.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def doctor(  # noqa: PLR0917 - click names them
    kubeconfig: str, chosen: str, of_pods: str, extender_namespace: str, output: str, arguments: tuple[str, ...]
) -> None:
    """Diagnose the installation, as `slurm-extender doctor` does.

    The command changes nothing. Exit code 1: at least one error; 2: the checks could not run. docs/reference/doctor.md
    explains the checks.

    \b
    Example:
      kubectl slurm doctor
    """
    if of_pods:
        raise click.UsageError("-n is the namespace of Pods; name that of the extender by --extender-namespace")
    words = [*arguments, "--namespace", extender_namespace]
    for key, value in (("kubernetes.kubeconfig", kubeconfig), ("kubernetes.context", chosen)):
        if value:
            words += ["--set", f"{key}={value}"]
    if output in {Form.YAML, Form.NAME}:
        _print(words, Form(output))
    _run([*words, "--output", "json" if output == Form.JSON else TEXT])


def _print(words: list[str], form: Form) -> None:
    output = io.StringIO()
    try:
        with redirect_stdout(output):
            _run([*words, "--output", "json"])
    except SystemExit as ended:
        if output.getvalue().startswith("{"):
            found = json.loads(output.getvalue())
            rows = [{"name": one.get("check", "")} for one in found.get("findings") or ()]
            Printer(form).show([found] if form is Form.YAML else rows, [], "check", one=form is Form.YAML)
        else:  # the checks did not begin: wrong flags
            click.echo(output.getvalue(), nl=False)
        sys.exit(ended.code)


def _run(words: list[str]) -> None:
    """End the process with the exit code of the doctor."""
    _of_service().main(words, prog_name="kubectl slurm doctor")


def _of_service() -> click.Command:
    """Return `slurm-extender doctor`. Raises click.ClickException where this program was built without it."""
    try:
        from extender.cli.doctor import doctor as found  # noqa: PLC0415 - no other command needs the configuration
    except ModuleNotFoundError as error:
        text = f"this program was built without the package {error.name}; use slurm-extender doctor"
        raise click.ClickException(text) from error
    return found
