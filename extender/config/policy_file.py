"""The site's policy for Pods, read again when its file changes. One that cannot be used keeps the last good one.

A mounted ConfigMap is swapped by a symlink, and a file that is renamed into its place is whole too: what is read of
another file is taken up at once. What was written into the same file may be half of it, and half a list of rules is a
list of rules: it has to be the same at two looks. The text is compared and not the file's times. kubelet brings a
changed ConfigMap within a minute or so (its sync period and the age of its cache).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import structlog

from extender.config.derive import translation_policy
from extender.config.document import ExtenderConfiguration
from extender.config.faults import ConfigError
from extender.config.load import text_of
from extender.config.policy_text import parse_policy
from extender.domain.policy.site import TranslationPolicy
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import PolicyChanged, PolicyFileRead

_log = structlog.get_logger(__name__)

CHECK_EVERY = 2.0
"""Seconds between two looks at the file."""

GOOD, BAD = "valid", "invalid"


class PolicyFile:
    """What is in force. Where the configuration names no file, that is what it says itself, for ever.

    A file that cannot be used at the start does not keep the process from starting: what runs has to be ended when its
    job ends. `policy` is `None` then, and nothing new is asked of Slurm.
    """

    def __init__(self, configuration: ExtenderConfiguration, events: EventBus) -> None:
        self._events = events
        named = configuration.jobs.policy_file
        self._configuration = configuration
        self._file = None if named is None else Path(named)
        self._seen = ""
        self._read: tuple[object, str] | None = None
        """Which file was read last, and what it held."""

        self.policy: TranslationPolicy | None = translation_policy(configuration) if named is None else None
        self.trouble = ""
        """What is wrong with the file as it is now; "" where it is in force."""

        self.loads: Counter[str] = Counter({GOOD: 0, BAD: 0})
        self.check()

    @property
    def given(self) -> bool:
        """There is a file."""
        return self._file is not None

    def check(self) -> None:
        """Take up a changed file. What is wrong with it is logged once."""
        if self._file is None:
            return
        try:
            text = text_of(self._file)
            seen = f"read: {text}"
            if not self._whole(text) or seen == self._seen:
                return
            policy = parse_policy(text, str(self._file), self._configuration)
        except ConfigError as error:
            self._refuse(error)
            return
        mended = bool(self.trouble)
        self._seen, self.trouble = seen, ""
        self.loads[GOOD] += 1
        news = policy != self.policy
        self.policy = policy
        _log.info("policy_in_force", file=str(self._file), rules=len(policy.pods.rules), changed=news)
        if mended:
            self._events.publish(PolicyFileRead(""))
        if news:
            self._events.publish(PolicyChanged())

    def _whole(self, text: str) -> bool:
        """Whether nobody is at writing it."""
        before, self._read = self._read, (_which(self._file), text)
        return before is None or before == self._read or before[0] != self._read[0]

    def _refuse(self, error: ConfigError) -> None:
        trouble = "; ".join(error.faults)
        if trouble == self.trouble:
            return
        self._seen, self.trouble = "", trouble
        self.loads[BAD] += 1
        _log.error("policy_unusable", faults=list(error.faults), last_good_stays=self.policy is not None)
        self._events.publish(PolicyFileRead(trouble))

    async def run(self) -> None:
        """Look at the file for ever."""
        while True:
            await asyncio.sleep(CHECK_EVERY)
            self.check()


def _which(file: Path | None) -> object:
    """What tells a file from the one that was there before."""
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return None
    return found and (found.st_dev, found.st_ino)
