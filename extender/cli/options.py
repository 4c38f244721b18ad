"""Define the options that several commands share: the configuration, single settings, the policy file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from extender.config.derive import translation_policy
from extender.config.document import ExtenderConfiguration
from extender.config.faults import ConfigError
from extender.config.load import Overrides, from_environment, load
from extender.config.policy_file import load_policy
from extender.domain.policy.site import TranslationPolicy

F = TypeVar("F", bound=Callable[..., Any])

BAD_CONFIGURATION = 2
"""Exit code for a configuration that cannot be used, as for wrong flags; trying again is useless."""


def settings_option(command: F) -> F:
    """Add `--set`: single keys of the configuration."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set one key of the configuration, such as slurm.killWait=60s. May be repeated.",
    )(command)


def policy_option(command: F) -> F:
    """Add `--policy`: another policy file than that of the configuration."""
    return click.option(
        "--policy",
        type=click.Path(path_type=Path),
        help="Path of the policy file, instead of jobs.policyFile.",
    )(command)


def configured(file: Path | None, flags: Overrides) -> ExtenderConfiguration:
    """Return the configuration in force: file, environment and flags. Ends the program where it has faults."""
    try:
        return load(file, from_environment(os.environ) + flags)
    except ConfigError as error:
        refuse(error)


def policy_of(configuration: ExtenderConfiguration, file: Path | None) -> TranslationPolicy:
    """Return the policy for Pods, with the policy file. Ends the program where that has faults."""
    named = configuration.jobs.policy_file
    if file is None and named is None:
        return translation_policy(configuration)
    try:
        return load_policy(file or Path(str(named)), configuration)
    except ConfigError as error:
        refuse(error)


def refuse(error: ConfigError) -> NoReturn:
    """Say every fault, and end the program."""
    for fault in error.faults:
        click.echo(fault, err=True)
    sys.exit(BAD_CONFIGURATION)
