"""What runs and what it subscribes to is one list."""

from __future__ import annotations

import re
from pathlib import Path

EXTENDER = Path(__file__).parents[3] / "extender"


def test_no_controller_subscribes_by_itself() -> None:
    subscribing = [
        str(path.relative_to(EXTENDER))
        for path in sorted((EXTENDER / "controllers").rglob("*.py"))
        if re.search(r"\.subscribe\(", path.read_text(encoding="utf-8"))
    ]
    assert subscribing == [], "list the subscription in extender/assembly/running_parts.py"


def test_every_event_that_is_published_has_a_subscriber() -> None:
    sources = [path.read_text(encoding="utf-8") for path in EXTENDER.rglob("*.py")]
    topics = re.findall(r"^class (\w+):", (EXTENDER / "runtime/topics.py").read_text(encoding="utf-8"), re.MULTILINE)
    heard = {topic for topic in topics if any(re.search(rf"(subscribe\(|\(t\.){topic},", source) for source in sources)}
    assert sorted(set(topics) - heard) == []
