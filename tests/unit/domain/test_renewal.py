from __future__ import annotations

from dataclasses import dataclass

import pytest

from extender.domain.renewal import replace


@dataclass(frozen=True, slots=True)
class Plain:
    one: int
    two: int = 2


@dataclass(frozen=True, slots=True)
class Careful:
    one: int
    two: int = 2

    def __post_init__(self) -> None:
        if self.one < 0:
            raise ValueError


def test_a_copy_has_the_changes_and_the_record_has_not() -> None:
    record = Plain(1)
    assert replace(record, one=5) == Plain(5, 2)
    assert record == Plain(1, 2)


def test_a_field_that_is_none_and_a_record_that_checks_its_fields_are_refused() -> None:
    with pytest.raises(KeyError, match="three"):
        replace(Plain(1), three=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Careful"):
        replace(Careful(1), one=-1)
