"""Read a configuration, and the faults of one that is refused."""

from __future__ import annotations

import pytest

from extender.config.document import ExtenderConfiguration
from extender.config.faults import ConfigError
from extender.config.load import from_environment, from_settings, parse
from extender.config.peers.sunk import from_flags

HEAD = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\n"

SLURM = "slurm: {tokenFile: /token}\n"


def read(
    body: str = SLURM,
    *,
    environ: dict[str, str] | None = None,
    flags: dict[str, str] | None = None,
    settings: tuple[str, ...] = (),
) -> ExtenderConfiguration:
    return parse(
        HEAD + body, "c.yaml", from_environment(environ or {}) + from_flags(flags or {}) + from_settings(settings)
    )


def faults(body: str = SLURM, **replaced: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(body, **replaced)  # type: ignore[arg-type]
    return caught.value.faults
