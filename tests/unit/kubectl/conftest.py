"""An API server, and a kubeconfig that names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.builders.plain_api import PlainApi, plain_api


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PlainApi]:
    with plain_api() as one:
        config = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
            "clusters": [{"name": "c", "cluster": {"server": one.url}}],
            "users": [{"name": "u", "user": {"token": "a-token"}}],
        }
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(file))
        yield one
