"""Tokens, groups and certificates of the lab's API server."""

import csv
import ssl
from pathlib import Path

import pytest
import yaml

from lab.credentials import EXTENDER, User, default_users, issue, kubeconfig, service_account, token_file
from lab.errors import LabError
from lab.kube import Kubernetes
from lab.scheduler import completed


def test_the_token_file_quotes_groups_as_the_api_server_reads_them() -> None:
    users = [User("admin", ("system:masters",), "t1"), User("plain", (), "t2"), User("both", ("a", "b"), "t3")]
    rows = list(csv.reader(token_file(users).splitlines()))
    assert rows == [["t1", "admin", "admin", "system:masters"], ["t2", "plain", "plain"], ["t3", "both", "both", "a,b"]]


def test_a_service_account_has_the_groups_that_a_real_one_gets() -> None:
    account = service_account("slurm-extender", "slurm-extender")
    assert account.name == EXTENDER
    assert set(account.groups) >= {"system:serviceaccounts", "system:serviceaccounts:slurm-extender"}


def test_no_two_users_share_a_token() -> None:
    tokens = [user.token for user in (*default_users(), *default_users())]
    assert len(set(tokens)) == len(tokens)


def test_a_token_never_shows_in_the_text_of_a_user() -> None:
    assert "secret" not in repr(User("admin", (), "secret"))


def test_a_kubeconfig_names_server_authority_and_token(tmp_path: Path) -> None:
    config = yaml.safe_load(kubeconfig("https://127.0.0.1:1", tmp_path / "ca.crt", User("admin", (), "t")))
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    assert config["users"][0]["user"]["token"] == "t"
    assert config["current-context"] == config["contexts"][0]["name"]


def test_the_serving_certificate_is_signed_by_the_authority(tmp_path: Path) -> None:
    files = issue(tmp_path)
    context = ssl.create_default_context(cafile=str(files.ca_file))
    context.load_cert_chain(files.certificate, files.key)
    assert files.key.stat().st_mode & 0o077 == 0


def test_an_unregistered_user_is_refused_with_those_there_are() -> None:
    with pytest.raises(LabError, match=r"no user 'nobody'.*Registered: admin"):
        Kubernetes().token("nobody")


def test_other_groups_than_the_registered_ones_are_refused() -> None:
    with pytest.raises(LabError, match="was registered with groups"):
        Kubernetes().kubeconfig_for(EXTENDER, groups=["system:masters"])


def test_a_scheduler_configuration_keeps_what_the_caller_said() -> None:
    text = "kind: KubeSchedulerConfiguration\nclientConnection: {qps: 7}\nprofiles: [{schedulerName: slurm}]\n"
    config = yaml.safe_load(completed(text, Path("/k")))
    assert config["clientConnection"] == {"qps": 7, "kubeconfig": "/k"}
    assert config["leaderElection"] == {"leaderElect": False}
    assert config["profiles"] == [{"schedulerName": "slurm"}]
    kept = yaml.safe_load(
        completed("kind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: true}\n", Path("/k"))
    )
    assert kept["leaderElection"] == {"leaderElect": True}


def test_anything_else_than_a_scheduler_configuration_is_refused() -> None:
    with pytest.raises(LabError, match="not Pod"):
        completed("kind: Pod\n", Path("/k"))
    with pytest.raises(LabError, match="not list"):
        completed("[]", Path("/k"))
