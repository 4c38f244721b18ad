"""Print the JSON schemas of the configuration and of the policy file, in `docs/reference`."""

from __future__ import annotations

import json

from extender.config.schema_keys import CONFIGURATION, POLICY


def configuration() -> str:
    """The schema of the configuration, as `slurm-extender generate schema` prints it."""
    return json.dumps(CONFIGURATION.json_schema, indent=2) + "\n"


def policy() -> str:
    """The schema of the policy file, as `slurm-extender generate schema --policy` prints it."""
    return json.dumps(POLICY.json_schema, indent=2) + "\n"
