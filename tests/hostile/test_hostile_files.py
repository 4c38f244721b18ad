"""Manifests and kubeconfigs of strangers: read, or refused in a sentence, in bounded time and memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from extender.cli import main
from kubectl_slurm.program import main as plugin
from tests.builders.hostile_server import memory_at_most

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {schedulerName: %s, containers: [{name: m}]}\n"
BOMB = "x0: &a0 [lol]\n" + "".join(f"x{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
MANIFESTS = {
    "a bomb of aliases": BOMB + POD % "*a9",
    "a bomb in a list": BOMB + "apiVersion: v1\nkind: List\nitems: *a9\n",
    "a list that holds itself": "&a\napiVersion: v1\nkind: List\nitems: [*a]\n",
    "items that are no list": "apiVersion: v1\nkind: List\nitems: 5\n",
    "brackets": "[" * 20_000,
    "a number that is none": POD % "!!int zzz",
    "a date that is none": POD % "2001-99-99",
    "an object of Python": POD % "!!python/object/apply:os.system [id]",
    "a number of many digits": POD % ("1" * 100_000),
    "a template that is no map": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: 5\n",
    "controls": 'apiVersion: v1\nkind: Pod\nmetadata: {name: "\\e[2J\\u202e"}\nspec: {schedulerName: slurm}\n',
    "nothing": "",
    "zero bytes": "\0\0",
}
CONTEXT = "contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n"
KUBECONFIGS = {
    "a bomb of aliases": BOMB + "clusters: [{name: c, cluster: {server: *a9}}]\n" + CONTEXT,
    "brackets": "[" * 20_000,
    "clusters that are no list": "clusters: 5\n" + CONTEXT,
    "a cluster that is no map": "clusters: [{name: c, cluster: 7}]\nusers: [{name: u, user: {}}]\n" + CONTEXT,
    "a server that is no text": "clusters: [{name: c, cluster: {server: [1]}}]\nusers: [{name: u, user: {}}]\n"
    + CONTEXT,
    "a file that is no text": "clusters: [{name: c, cluster: {certificate-authority: {a: b}}}]\n" + CONTEXT,
    "a context that is a map": "current-context: {a: b}\n",
    "a list": "[1, 2]\n",
    "controls": 'current-context: "\\e[2J\\u202e"\n',
    "two documents": "{}\n---\n{}\n",
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_translated_or_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(MANIFESTS[name])
    with memory_at_most(300 * 2**20):
        said = CliRunner().invoke(main, ["translate", str(file)])
    assert said.exception is None or isinstance(said.exception, SystemExit)
    assert len(said.output) < 5000
    assert said.output.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", KUBECONFIGS)
def test_a_kubeconfig_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIGS[name])
    with memory_at_most(300 * 2**20):
        said = CliRunner().invoke(plugin, ["nodes", "--kubeconfig", str(file)])
    assert said.exit_code in {1, 2}
    assert isinstance(said.exception, SystemExit)
    assert len(said.output) < 5000
    assert said.output.replace("\n", "").isprintable()
