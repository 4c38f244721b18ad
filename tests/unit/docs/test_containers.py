"""The look for containers finds what may grow, and leaves out what cannot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders.containers import COMMANDS, containers


def found_in(top: Path, text: str) -> list[str]:
    (top / "extender").mkdir()
    (top / "slurmclient").mkdir()
    (top / "extender/one.py").write_text(text)
    return [name.removeprefix("extender.one.") for name in containers(top)]


@pytest.mark.parametrize(
    "begins",
    [
        "{}",
        "[]",
        "set()",
        "dict()",
        "deque()",
        "OrderedDict()",
        "defaultdict(list)",
        "asyncio.Queue()",
        "Counter()",
        "{name: 0 for name in ()}",
        "WeakValueDictionary()",
    ],
)
def test_an_attribute_that_begins_as_a_container_is_found(tmp_path: Path, begins: str) -> None:
    text = f"class A:\n    def __init__(self):\n        self._new = {begins}\n        self._other = 5\n"
    assert found_in(tmp_path, text) == ["A._new"]


def test_an_attribute_is_found_by_its_annotation(tmp_path: Path) -> None:
    text = "class A:\n    def __init__(self, given):\n        self._new: dict[str, int] = given\n"
    assert found_in(tmp_path, text) == ["A._new"]


def test_a_field_of_a_dataclass_is_found_unless_it_is_frozen(tmp_path: Path) -> None:
    field = "    new: set[str] = field(default_factory=set)\n    must: list[int]\n"
    text = f"@dataclass\nclass A:\n{field}\n@dataclass(frozen=True, slots=True)\nclass B:\n{field}\n"
    assert found_in(tmp_path, text) == ["A.new", "A.must"]


def test_a_global_is_found_where_its_module_changes_it(tmp_path: Path) -> None:
    text = "TABLE = {1: 2}\nknown = {}\nseen = []\ndef f(a):\n    known[a] = TABLE[a]\n    seen.append(a)\n"
    assert found_in(tmp_path, text) == ["known", "seen"]


def test_a_cache_of_a_function_is_found(tmp_path: Path) -> None:
    text = "@functools.lru_cache(maxsize=8)\ndef f(a):\n    return a\n@cache\ndef g(a):\n    return a\n"
    assert found_in(tmp_path, text) == ["f", "g"]


def test_every_package_that_is_left_out_exists_and_has_no_part_in_the_running_process() -> None:
    """A package that is gone would leave out the next one of its name."""
    extender = Path(__file__).parents[3] / "extender"
    assert [name for name in COMMANDS if not (extender / name / "__init__.py").is_file()] == []
    outside = {*COMMANDS, "__main__.py"}
    inside = [path for path in extender.rglob("*.py") if path.relative_to(extender).parts[0] not in outside]
    assert len(inside) > 100
    imported = {
        (str(path.relative_to(extender)), name)
        for path in inside
        for name in COMMANDS
        if re.search(rf"^\s*(from|import) extender\.{name}\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert imported == set()
