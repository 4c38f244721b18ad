"""The minors of Kubernetes that the lab has, as parameters of tests."""

from __future__ import annotations

import pytest

from lab.build_kubernetes import newest_minor, older_minors, proved_minors

EVERY_MINOR = [
    newest_minor(),
    *(pytest.param(minor, marks=pytest.mark.older_kubernetes) for minor in older_minors()),
    *(pytest.param(minor, marks=[pytest.mark.proved_kubernetes, pytest.mark.slow]) for minor in proved_minors()),
]
"""For tests that start a control plane of their own."""
