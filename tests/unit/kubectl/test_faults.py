"""What can be wrong around `kubectl slurm` is said in one sentence, and never with a traceback."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
import yaml

from kubectl_slurm import flags
from kubectl_slurm.api import Api
from tests.builders.kubectl_program import a_node, a_pod, run_plugin
from tests.builders.plain_api import PlainApi

EVERY = (("status",), ("why", "web"), ("jobs",), ("nodes",), ("history", "web"), ("orphans",), ("drain", "n1"))


def one_sentence(text: str) -> str:
    assert "Traceback" not in text
    assert len(text.strip().splitlines()) == 1, text
    return text


def a_kubeconfig(folder: Path, cluster: dict[str, str], user: Mapping[str, object] | None = None) -> str:
    file = folder / "another"
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": dict(user or {})}],
    }
    file.write_text(yaml.safe_dump(config))
    return str(file)


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_without_a_kubeconfig_it_says_where_it_searched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    said = run_plugin(*words)
    assert said.exit_code == 2
    assert str(tmp_path / ".kube" / "config") in one_sentence(said.output)


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_an_api_server_that_is_away_is_named(api: PlainApi, words: tuple[str, ...]) -> None:
    said = run_plugin(*words, "--server", "http://127.0.0.1:1")
    assert said.exit_code == 1
    assert "127.0.0.1" in one_sentence(said.output)


@pytest.mark.parametrize(
    ("forbidden", "words"),
    [
        ("/api/v1/namespaces/default/pods", ("why", "web")),
        ("/api/v1/namespaces/default/pods", ("jobs",)),
        ("/api/v1/namespaces/default/pods", ("history", "web")),
        ("/api/v1/nodes", ("nodes",)),
        ("/api/v1/nodes", ("drain", "n1")),
    ],
)
def test_what_may_not_be_read_is_named_with_the_role_that_allows_it(
    api: PlainApi, forbidden: str, words: tuple[str, ...]
) -> None:
    api.pods, api.nodes, api.forbidden = [a_pod("web")], [a_node("n1")], (forbidden,)
    said = run_plugin(*words)
    assert said.exit_code == 1
    assert forbidden in one_sentence(said.stderr)
    assert "slurm-extender-" in said.stderr


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
@pytest.mark.parametrize("forbidden", ["/api/v1/pods", "/api/v1/namespaces", "/api/v1/nodes", "/apis"])
def test_whatever_is_forbidden_is_no_traceback(api: PlainApi, words: tuple[str, ...], forbidden: str) -> None:
    api.pods, api.nodes, api.forbidden = [a_pod("web")], [a_node("n1")], (forbidden,)
    said = run_plugin(*words)
    assert said.exception is None or isinstance(said.exception, SystemExit)


@pytest.mark.parametrize("body", [b"<html>no API server</html>", b"[]", b"", b"\xff"])
def test_a_server_that_is_no_api_server_is_said(api: PlainApi, body: bytes) -> None:
    api.pods, api.body = [a_pod("web")], body
    said = run_plugin("jobs")
    assert said.exit_code == 1
    assert f"is {api.url} an API server?" in one_sentence(said.output)


@pytest.mark.parametrize(
    ("cluster", "user", "code", "text"),
    [
        ({"certificate-authority": "/no/ca.crt"}, {}, 2, "certificate-authority: there is no file /no/ca.crt"),
        ({}, {"client-certificate": "/no/me.crt", "client-key": "/no/me.key"}, 2, "there is no file /no/me.crt"),
        ({}, {"tokenFile": "/no/token"}, 2, "tokenFile: there is no file /no/token"),
        ({"certificate-authority-data": "bm9uZQ=="}, {}, 1, "another"),
        ({"certificate-authority-data": "%"}, {}, 1, "another"),
    ],
)
def test_what_of_a_kubeconfig_cannot_be_used_is_named(
    api: PlainApi, tmp_path: Path, cluster: dict[str, str], user: dict[str, str], code: int, text: str
) -> None:
    file = a_kubeconfig(tmp_path, {"server": "https://127.0.0.1:1", **cluster}, user)
    said = run_plugin("jobs", "--kubeconfig", file)
    assert said.exit_code == code, said.output
    assert text in one_sentence(said.output)


def test_a_certificate_of_another_authority_is_said(api: PlainApi, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    mine = tmp_path / "ca.crt"
    trustme.CA().cert_pem.write_to_path(str(mine))
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        url = f"https://127.0.0.1:{server.server_address[1]}"
        said = run_plugin(
            "jobs", "--kubeconfig", a_kubeconfig(tmp_path, {"server": url, "certificate-authority": str(mine)})
        )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert said.exit_code == 1
    assert "certificate" in one_sentence(said.output).lower()


def test_an_interrupt_ends_it_quietly(api: PlainApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Api, "items", interrupted)
    said = run_plugin("jobs")
    assert said.exit_code == 130
    assert said.output == ""


def test_a_list_that_became_too_old_between_two_pages_is_requested_once_more(api: PlainApi) -> None:
    api.pods, api.expire = [a_pod(f"p{number}") for number in range(501)], 1
    assert len(run_plugin("jobs", "--no-headers").stdout.splitlines()) == 501
    api.expire = 2
    said = run_plugin("jobs")
    assert said.exit_code == 1
    one_sentence(said.output)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("jobs", "--server", "nonsense"), 2, "nonsense"),
        (("jobs", "--server", "http://"), 2, "http://"),
        (("jobs", "--server", "http://there:many"), 2, "there:many"),
        (("jobs", "--server", "http://[::1"), 2, "[::1"),
        (("jobs", "--server", "ftp://there"), 2, "ftp://there"),
        (("jobs", "--as", "a\nb"), 2, "--as"),
        (("jobs", "--as-group", "a\x00b"), 2, "--as-group"),
        (("jobs", "--token", "a\nb"), 1, "line break"),
        (("jobs", "-n", "a/../b"), 2, "a/../b"),
        (("why", "web?watch=true"), 2, "web?watch=true"),
        (("why", "Web"), 2, "Web"),
        (("nodes", "n1#x"), 2, "n1#x"),
        (("drain", "../pods"), 2, "../pods"),
        (("nodes", "--extender-namespace", "a b"), 2, "a b"),
        (("nodes", "--lease", "a/b"), 2, "a/b"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_can_be_no_name_and_no_address_is_not_requested(
    api: PlainApi, words: tuple[str, ...], code: int, text: str
) -> None:
    said = run_plugin(*words)
    assert said.exit_code == code, said.output
    assert text in said.output.splitlines()[-1]
    assert not api.requests


def test_a_kubeconfig_that_the_environment_names_and_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    said = run_plugin("jobs")
    assert said.exit_code == 2
    assert f"KUBECONFIG names {tmp_path}/none, which is not there" in one_sentence(said.output)


def a_plugin(folder: Path, text: str) -> str:
    program = folder / "login"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o700)
    return str(program)


def by_plugin(api: PlainApi, folder: Path, program: str) -> str:
    said = {"apiVersion": "client.authentication.k8s.io/v1", "command": program, "interactiveMode": "Never"}
    return a_kubeconfig(folder, {"server": api.url}, {"exec": said})


def test_a_credential_plugin_provides_the_token(api: PlainApi, tmp_path: Path) -> None:
    answer = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "of-plugin"}}'
    )
    file = by_plugin(api, tmp_path, a_plugin(tmp_path, f"echo '{answer}'"))
    said = run_plugin("jobs", "--kubeconfig", file)
    assert said.exit_code == 0, said.output
    assert ("Authorization", "Bearer of-plugin") in api.headers


@pytest.mark.parametrize("text", ["echo no login >&2; exit 3", "echo '{}'", "echo nothing", None])
def test_a_credential_plugin_that_fails_is_one_sentence(api: PlainApi, tmp_path: Path, text: str | None) -> None:
    program = "/no/such/login" if text is None else a_plugin(tmp_path, text)
    said = run_plugin("jobs", "--kubeconfig", by_plugin(api, tmp_path, program))
    assert said.exit_code == 1, said.output
    assert "another" in one_sentence(said.output)


@pytest.mark.parametrize(("text", "seconds"), [("10", 10), ("10s", 10), ("500ms", 0.5), ("2m", 120), ("1h", 3600)])
def test_a_timeout_is_read_as_kubectl_reads_it(text: str, seconds: float) -> None:
    assert flags.seconds(text) == seconds
