"""Print `docs/reference/configuration.md` from the model in `extender.config`.

Run from the top of the repository: `python -m docs.generate.configuration > docs/reference/configuration.md`
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from extender.config.load import parse, variable
from extender.config.peers.sunk import SUNK_FLAGS
from extender.config.schema_keys import EACH, Key, keys

SMALLEST = """\
apiVersion: slurm-extender.io/v1alpha1
kind: ExtenderConfiguration
slurm:
  addresses: ["http://slurmrestd.slurm.svc:6820"]
  tokenFile: /etc/slurm-extender/slurm/token
"""

_HEAD = f"""\
# Configuration

<!-- Printed by `python -m docs.generate.configuration` from `extender/config`. -->

One YAML document, given by `slurm-extender serve --config FILE`. The smallest useful one:

```yaml
{SMALLEST}```

* It is strict: an unknown key, a key given twice, a number where text is wanted are refused. Everything that is wrong
  is said at once, with line, value, and what is allowed: `slurm-extender check-config FILE`.
* [Its JSON schema](configuration.schema.json) is what `slurm-extender generate schema` prints. Most editors use it
  where the first line of the file is `# yaml-language-server: $schema=` and its address.
* Durations are text such as `500ms`, `30s`, `1m30s`, or a number of seconds.
* Every value below can also come from an environment variable, the key's path in capitals with `__` between its parts:
  `slurm.killWait` is `{variable(keys()[("slurm", "killWait")])}`. And from `--set slurm.killWait=60s`. Both take
  YAML where the value is a list or a map. Variables go before the file, flags before variables.
* The configuration is read once, at the start. Token files, certificates and the policy file (docs/policy.md) are read
  again when they change.
* `/debug/config` shows what is in force, without the secrets.
"""

_FLAGS = """
## Flags of SUNK's scheduler

`serve` takes them with SUNK's meaning; they go before everything else. Three things differ from SUNK:

* `--slurm-api-base` has to name a slurmrestd; slurmctld's own port, 6817, is refused.
* kube-scheduler calls the extender at `http.bind`. Where one of these flags takes port 8080, as SUNK's
  `--metrics-bind-address=:8080` does, and `http.bind` is not given, it moves to the next free port.
* `http.bind` is on the loopback interface unless it is given. In a Pod, `serve` warns of that at the start.

`slurm-extender import-config` makes a configuration of them ([migrate](../migrate.md)).

| flag | key | |
|---|---|---|
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    defaults = parse(SMALLEST, "the example").model_dump(mode="json")
    everything = list(keys().values())
    text = _HEAD + table(
        "The document", "", [key for key in everything if len(key.path) == 1 and not key.group], defaults
    )
    for group in everything:
        if group.group and group.path != ("jobs", "namespaceDefaults", EACH):
            inside = [key for key in everything if key.path[:-1] == group.path and not key.group]
            title = f"`{group.dotted}`" + (" (optional)" if group.nullable else "")
            text += table(title, group.description, inside, defaults)
    text += _FLAGS
    for flag in SUNK_FLAGS:
        key = f"`{'.'.join(flag.path)}`" if flag.path else ""
        text += f"| `--{flag.name}` | {key} | {flag.help} |\n"
    return text


def table(title: str, description: str, inside: list[Key], defaults: Mapping[str, Any]) -> str:
    """A section with a table of these keys."""
    if not inside:
        return f"\n## {title}\n\n{description}\n"
    text = f"\n## {title}\n\n" + (f"{description}\n\n" if description else "")
    text += "| key | default | allowed | meaning |\n|---|---|---|---|\n"
    for key in inside:
        cells = (f"`{key.path[-1]}`", _default(key, defaults), key.allowed, key.description)
        text += "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    return text


def _default(key: Key, defaults: Mapping[str, Any]) -> str:
    if key.required:
        return "required"
    value: Any = defaults
    if key.path[:2] == ("slurm", "addresses"):
        return "`http://127.0.0.1:6820`"
    if key.path[:2] == ("slurm", "tokenFile"):
        return "unset"
    for part in key.path:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "unset"
    if value in ([], {}):
        return "none"
    if isinstance(value, list):
        return ", ".join(f"`{_line(one) if isinstance(one, dict) else one}`" for one in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _line(entry: Mapping[str, Any]) -> str:
    """Return an entry of a list as `key: value`, without a number of 1."""
    return ": ".join(str(value) for value in entry.values() if value != 1)


if __name__ == "__main__":
    sys.stdout.write(render())
