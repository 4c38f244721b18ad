"""The whole process in memory, on virtual time; nothing of the extender is called directly."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.process_site import SITE_KEY, UNHURRIED, Site, a_site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with a_site() as one:
        yield one


@pytest.fixture
def unhurried(site: Site) -> None:
    """Slurm is polled seldom."""
    site.config = UNHURRIED


@pytest.fixture
def keyed(site: Site, tmp_path: Path) -> Site:
    """The site gave Epilog and Prolog a key."""
    path = tmp_path / "site-key"
    path.write_text(f"{SITE_KEY}\n")
    site.config = site.config.replace("key: secret", f"key: secret, siteKeyFile: {path}")
    return site
