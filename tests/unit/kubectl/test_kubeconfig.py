"""Kubeconfig files and flags are made one as kubectl does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_slurm.kubeconfig import Flags, KubeconfigError, Target, target


def a_file(folder: Path, name: str, **more: Any) -> Path:
    config = {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"of-{name}"}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}", "certificate-authority": "ca.crt"}}],
        "users": [{"name": name, "user": {"token": f"token-of-{name}", "client-key": "/abs/key"}}],
        **more,
    }
    file = folder / name
    file.write_text(yaml.safe_dump(config))
    return file


def resolved(flags: Flags, environ: dict[str, str], home: Path = Path("/nowhere")) -> tuple[Any, Any, Target]:
    found = target(flags, environ, home)
    assert found.config is not None
    return found.config["clusters"][0]["cluster"], found.config["users"][0]["user"], found


def test_the_first_current_context_counts_and_paths_are_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    one, two = a_file(tmp_path, "one"), a_file(tmp_path / "sub", "two")
    cluster, user, found = resolved(Flags(), {"KUBECONFIG": f"{one}:{two}:{tmp_path}/none"})
    assert cluster == {"server": "https://one", "certificate-authority": str(tmp_path / "ca.crt")}
    assert user == {"token": "token-of-one", "client-key": "/abs/key"}
    assert found.namespace == "of-one"
    cluster, _, found = resolved(Flags(context="two"), {"KUBECONFIG": f"{one}:{two}"})
    assert cluster["certificate-authority"] == str(tmp_path / "sub" / "ca.crt")
    assert found.namespace == "of-two"


def test_flags_win(tmp_path: Path) -> None:
    one, two = a_file(tmp_path, "one"), a_file(tmp_path, "two")
    environ = {"KUBECONFIG": f"{one}:{two}"}
    cluster, user, found = resolved(Flags(cluster="two", token="t", namespace="n", insecure=True), environ)
    assert cluster == {"server": "https://two", "insecure-skip-tls-verify": True}
    assert user == {"token": "t", "client-key": "/abs/key"}
    assert found.namespace == "n"
    assert resolved(Flags(user="two"), environ)[1]["token"] == "token-of-two"
    assert resolved(Flags(server="https://there"), {})[0] == {"server": "https://there"}


def test_the_default_place_is_read(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    a_file(tmp_path / ".kube", "config")
    assert resolved(Flags(), {}, tmp_path)[0]["server"] == "https://config"


def test_within_a_pod_its_own_account_serves() -> None:
    assert target(Flags(), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, Path("/nowhere")).config is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", "it must hold a mapping, not list"),
        ("a: [", "kubeconfig"),
        ("contexts: [{context: {}}]", "each needs a name"),
        ("current-context: there", 'contexts has no "there"; there is: none'),
        ("{}", "no server is named"),
        ("", "no server is named"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "broken"
    file.write_text(text)
    with pytest.raises(KubeconfigError) as caught:
        target(Flags(kubeconfig=str(file)), {}, tmp_path)
    assert words in str(caught.value)


def test_that_there_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="there is no kubeconfig"):
        target(Flags(), {}, tmp_path)
