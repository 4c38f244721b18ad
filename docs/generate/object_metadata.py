"""Print `docs/reference/object-metadata.md` from the docstrings of `extender/domain/wellknown.py`.

Run from the top of the repository: `python -m docs.generate.object_metadata > docs/reference/object-metadata.md`
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from extender.domain import wellknown
from extender.domain.gangs import labels

FORM = re.compile(
    r"(?P<object>Pod|Node|Lease|Namespace|ResourceClaim) "
    r"(?P<kind>annotation|label|label or annotation|taint|condition|scheduling gate)"
    r"(?P<setting>, a setting)?: (?P<text>.+)",
    re.DOTALL,
)
"""How the docstring of a key begins. A test holds every key to it."""

PREFIXES = frozenset({"OWN_PREFIX", "STATUS_PREFIX", "SUNK_PREFIX", "BRIDGE_PREFIX", "CHECKPOINT_PREFIX"})

_HEAD = """\
# Labels, annotations, taints and conditions

<!-- Printed by `python -m docs.generate.object_metadata` from `extender/domain/wellknown.py`. -->

After reading this page you know every key that the extender writes on an object of Kubernetes, and every key that it
reads there. Users and administrators write those that are marked as a setting; the extender writes all others, and
ignores or repairs changes of them. Settings of the Slurm job of a Pod are on [another page](annotations.md), Events on
[a third](events.md), metrics on [a fourth](metrics.md). The extender has no finalizer of its own.
On a ResourceClaim that it allocates it writes `job-id`, and Kubernetes' finalizer `delete-protection`. Its own
ResourceClaims have the label `slurm-extender.io/device-reminder` ([devices](../devices.md#reminders)).

`status.slurm-extender.io/` begins status, `slurm-extender.io/` settings, conditions and taints.
"""

_TABLE = "\n| key | | setting | meaning |\n|---|---|---|---|\n"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of an object of Kubernetes."""

    constant: str
    key: str
    object: str
    kind: str
    setting: bool
    text: str


def documented(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and docstring of every constant of a module that is text; "" without a docstring."""
    body = ast.parse(inspect.getsource(module)).body
    for at, statement in enumerate(body):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        name = statement.targets[0].id
        after = body[at + 1] if at + 1 < len(body) else None
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = " ".join(str(after.value.value).split())
        if isinstance(value := getattr(module, name), str):
            yield name, value, text


def keys() -> list[Key]:
    """Return every key of `wellknown`. Raises `ValueError` for one whose docstring has another form."""
    found = []
    for name, value, text in documented(wellknown):
        if name in PREFIXES or "/" not in value or value == wellknown.CONFIG_API_VERSION:
            continue
        said = FORM.fullmatch(text)
        if said is None:
            raise ValueError(f"wellknown.{name}: its docstring must begin as 'Pod annotation: ...' does")
        sentence = re.sub(r" ?See `[\w.]+`\.", "", said["text"])
        sentence = sentence[:1].upper() + sentence[1:]
        found.append(Key(name, value, said["object"], said["kind"], bool(said["setting"]), sentence))
    return found


def render() -> str:
    """The whole page, with a newline at its end."""
    parts = [_HEAD]
    for of in ("Pod", "Node", "Namespace", "Lease", "ResourceClaim"):
        parts.append(f"\n## {of}\n{_TABLE}")
        parts += [
            f"| `{one.key}` | {one.kind} | {'yes' if one.setting else ''} | {one.text} |\n"
            for one in sorted(keys(), key=lambda one: (one.kind, one.key))
            if one.object == of
        ]
    parts.append(_OTHERS)
    others = {value for _, value, _ in documented(labels) if "/" in value and not value.endswith("/")}
    parts += [f"* `{key}`\n" for key in sorted(others | set(labels.VOLCANO_GROUPS))]
    return "".join(parts)


_OTHERS = """
## Keys of other projects that are read

[Gangs](../gangs.md) follow from these labels and annotations of Pods, and ranks of their members:

"""


if __name__ == "__main__":
    sys.stdout.write(render())
