"""Licences that a Pod names and those that its resources stand for go into one request."""

import pytest

from extender.domain.translation.licenses import combined, counted


@pytest.mark.parametrize(
    ("said", "needed", "text"),
    [
        ("", {}, ""),
        ("ansys:2", {}, "ansys:2"),
        ("", {"matlab": 2}, "matlab:2"),
        ("ansys", {"matlab": 2, "abaqus": 1}, "ansys,abaqus:1,matlab:2"),
        # The author asks for as many or more of the same.
        ("matlab:3", {"matlab": 2}, "matlab:3"),
        ("ansys|matlab", {}, "ansys|matlab"),
    ],
)
def test_what_is_needed_is_added_to_what_was_said(said: str, needed: dict[str, int], text: str) -> None:
    found = combined(said, needed, "x")
    assert (found.text, found.faults) == (text, ())


def test_fewer_of_a_licence_than_the_resources_stand_for_is_a_fault() -> None:
    (fault,) = combined("matlab", {"matlab": 2}, 'licenses: "matlab"').faults
    assert fault.startswith('licenses: "matlab" requests 1 matlab, but the Pod\'s resources request 2')


def test_a_choice_of_slurm_s_cannot_be_added_to() -> None:
    (fault,) = combined("a|b", {"matlab": 1}, 'licenses: "a|b"').faults
    assert fault.startswith('licenses: "a|b" lets Slurm choose')


def test_licences_are_counted_as_slurm_reads_them() -> None:
    assert counted("a, b:2,c@server:3,d=4") == {"a": 1, "b": 2, "c@server": 3, "d": 4}
