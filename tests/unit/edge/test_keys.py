"""Keys of the hooks: read from a file of text, and refused where somebody could find them by trying."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from extender.assembly.keys import LONGEST_FILE, KeyFileError, hook_keys, require_key, site_key
from extender.config.document import ExtenderConfiguration
from extender.config.load import parse
from tests.builders.served_process import free_ports, served, written_config

KEY = "0123456789abcdef"
GENEROUS_S = 60.0


def configured(file: Path, which: str) -> ExtenderConfiguration:
    text = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\n"
    text += 'slurm: {addresses: ["http://slurm:6820"], token: t, user: root}\n'
    return parse(f"{text}hooks: {{{which}: {file}}}\n", "test")


def test_each_line_is_a_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}-new\n\n{KEY}-old\n")
    assert hook_keys(configured(file, "keyFile")) == (f"{KEY}-new".encode(), f"{KEY}-old".encode())


@pytest.mark.parametrize("which", ["keyFile", "siteKeyFile"])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"x", "line 1 has 1 characters: a key must have at least 16"),
        (KEY.encode() + b"\nshort", "line 2 has 5 characters"),
        (b"\x00" * 64, "line 1 is not text: write the key in hexadecimal"),
        (bytes(range(128, 160)), "is not text"),
        (KEY.encode() * 10_000, f"more than {LONGEST_FILE} bytes"),
    ],
)
def test_a_file_of_no_key_is_refused_with_what_to_write(tmp_path: Path, which: str, content: bytes, why: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    read = hook_keys if which == "keyFile" else site_key
    with pytest.raises(KeyFileError, match=why):
        read(configured(file, which))


async def test_serve_without_a_key_ends_with_the_key_to_set_and_opens_no_listener(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    body = f"kubernetes: {{kubeconfig: {tmp_path}/kubeconfig}}\nhttp: {{bind: '127.0.0.1:{port}'}}\n"
    async with served(written_config(tmp_path, body)) as process, asyncio.timeout(GENEROUS_S):
        _, said = await process.communicate()
    assert process.returncode == 1
    text = said.decode()
    assert "Error: hooks.keyFile is not set: it must name a file with a random key" in text
    assert "For a trial, set hooks.allocationProofs to unsigned." in text
    assert "listening" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize("hooks", ["{allocationProofs: unsigned}", "{keyFile: /no/such/file}", f"{{key: {KEY}}}"])
def test_a_key_or_the_word_that_none_is_wanted_lets_the_start_continue(hooks: str) -> None:
    text = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: t}\n"
    require_key(parse(f"{text}hooks: {hooks}\n", "test"))
    with pytest.raises(KeyFileError, match=r"hooks\.keyFile is not set"):
        require_key(parse(text, "test"))
