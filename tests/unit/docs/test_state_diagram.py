"""The pages show the states of a placeholder and the packages as the code has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate import layers
from docs.generate.state_diagram import BEGIN, END, PAGE, redrawn, render
from extender.domain.lifecycle.machine import edges
from extender.domain.placeholder import State

TOP = Path(__file__).parents[3]


def page() -> str:
    return (TOP / PAGE).read_text(encoding="utf-8")


def packages_page() -> str:
    return (TOP / layers.PAGE).read_text(encoding="utf-8")


def test_the_drawing_in_the_page_is_the_table() -> None:
    assert redrawn(page()) == page(), f"{PAGE} is stale: python -m docs.generate.state_diagram"


def test_the_layers_in_the_page_are_those_that_import_linter_holds() -> None:
    assert layers.redrawn(packages_page()) == packages_page(), f"{layers.PAGE} is stale: python -m docs.generate.layers"


def test_every_change_of_state_is_drawn_with_its_event() -> None:
    arrows = [line for line in render().splitlines() if "-->" in line]
    for state, target, event in edges():
        (arrow,) = (line for line in arrows if line.startswith(f"  {state} --> {target} : "))
        assert event in arrow.partition(" : ")[2].split(", ")


def test_every_state_is_explained() -> None:
    assert [state for state in State if f"| {state} |" not in page()] == []


def test_every_package_is_named() -> None:
    packages = {path.parent.name for path in (TOP / "extender").glob("*/__init__.py")}
    assert [package for package in sorted(packages) if f"extender.{package}`" not in packages_page()] == []


def test_a_page_without_a_marker_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0 times, it needs it once"):
        redrawn(page().replace(END, ""))
    with pytest.raises(ValueError, match=r"2 times, it needs it once"):
        redrawn(page() + BEGIN)
