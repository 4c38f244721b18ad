"""Keys of the hooks: read from a file of text, and refused where somebody could find them by trying."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.assembly.keys import LONGEST_FILE, KeyFileError, hook_keys, site_key
from extender.config.document import ExtenderConfiguration
from extender.config.load import parse

KEY = "0123456789abcdef"


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
