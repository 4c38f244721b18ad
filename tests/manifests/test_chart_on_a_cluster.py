"""A real API server takes the chart, changes of it and its removal; the hooks key survives them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from lab.helm import CHART, helm, with_image
from lab.kube import Kubernetes


@pytest.mark.lab
def test_the_chart_is_installed_changed_and_taken_out_again(tmp_path: Path) -> None:
    with Kubernetes(controllers=False, workdir=tmp_path) as kube:
        where = ("slurm-extender", str(CHART), f"--kubeconfig={kube.kubeconfig}", "--namespace=elsewhere")
        said = helm(
            "install", *where, "--create-namespace", values=with_image({"schedulingGate": "policy", "tls": "none"})
        )
        assert "kubectl -n elsewhere create secret generic slurm-extender" in said
        assert "--from-literal=hooks-key" not in said
        made = hooks_key(kube)
        assert len(made) == 64
        assert "Set tls=certificates" in said
        assert "config.hooks.url is not set" in said
        hooks = {"config": {"hooks": {"url": "http://hooks.example.org:8000"}}}
        said = helm("upgrade", *where, values=with_image({"schedulingGate": "webhook", "noGrowth": True, **hooks}))
        assert "Set tls=" not in said
        second = with_image({"config": {"scheduler": {"name": "second"}}})
        helm("install", "second", *where[1:-1], "--namespace=another", "--create-namespace", values=second)
        helm("uninstall", "second", *where[2:-1], "--namespace=another")
        # Its Job has not begun, and cannot be changed.
        more = {"schedulingGate": "webhook", "image": {"repository": "elsewhere/slurm-extender"}}
        helm("upgrade", *where, values={**more, **hooks})
        [job] = kube.kubectl("get", "jobs", "-n", "elsewhere", "-o", "name").split()
        assert job == "job.batch/slurm-extender-certificates-3"
        assert "hooks.url" not in said
        assert hooks_key(kube) == made
        kinds = "deployment,configmap,service,role,clusterrole,mutatingwebhookconfiguration,cronjob,networkpolicy"
        ours = ("get", kinds, "-A", "-l", "app.kubernetes.io/instance=slurm-extender", "-o", "name")
        assert (
            "mutatingwebhookconfiguration.admissionregistration.k8s.io/slurm-extender-gate-elsewhere"
            in kube.kubectl(*ours)
        )
        helm("uninstall", *where[:1], *where[2:])
        assert kube.kubectl(*ours) == ""
        assert hooks_key(kube) == made
        helm("install", *where, values=with_image({}))
        assert hooks_key(kube) == made
        kube.kubectl("create", "secret", "generic", "own", "-n", "elsewhere", "--from-literal=hooks-key=mine")
        helm("upgrade", *where, values=with_image({"hooksKeySecret": "own"}))
        assert hooks_key(kube, "own") == b"mine"


def hooks_key(kube: Kubernetes, name: str = "slurm-extender-hooks") -> bytes:
    text = kube.kubectl("get", "secret", name, "-n", "elsewhere", "-o", "jsonpath={.data.hooks-key}")
    return base64.b64decode(text)
