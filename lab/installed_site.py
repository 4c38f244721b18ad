"""A site whose extender is installed with the shipped chart: helm makes every object of it.

No container runs in the lab. The programs of the two Deployments run as processes, with the files that the chart would
mount into their containers: its ConfigMaps, and the Secrets of the certificates.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lab import manifests
from lab.credentials import CERTIFICATES, EXTENDER
from lab.errors import LabError
from lab.extender import PROGRAM
from lab.helm import CHART, helm, with_image
from lab.secrets_folder import mount
from lab.site import Site

NAMESPACE = "slurm-extender"
RELEASE = "slurm-extender"


class InstalledSite(Site):
    """Slurm and Kubernetes are up between ``with`` and its end; ``install`` brings the extender."""

    def _start(self) -> None:
        self.slurm = self._stack.enter_context(self._slurm())
        self.kube = self._stack.enter_context(self._kubernetes())
        self._register_nodes()
        self._document: dict[str, Any] = {}

    def install(self, values: Mapping[str, Any]) -> str:
        """Install the chart with these values, and start what its Deployments run; what helm said."""
        self.kube.kubectl("create", "namespace", NAMESPACE)
        token = f"--from-literal=token={self.slurm.token('root')}"
        self.kube.kubectl("-n", NAMESPACE, "create", "secret", "generic", "slurm-extender", token)
        said = self._helm("install", RELEASE, str(CHART), values=with_image(values))
        documents = [one for one in yaml.safe_load_all(self._helm("get", "manifest", RELEASE)) if one]
        [config] = [
            one["data"]["config.yaml"]
            for one in manifests.of_kind(documents, ["ConfigMap"])
            if one["metadata"]["name"] == "extender-config"
        ]
        self._document = yaml.safe_load(config)
        self._make_certificates()
        self._start_extender()
        account, gates = manifests.scheduler_deployment(documents)
        url = f"https://127.0.0.1:{self.addresses.scheduling}/scheduler"
        profile = manifests.scheduler_profile(documents, url, self._secret("slurm-scheduler-tls"))
        self.scheduler = self.kube.start_scheduler(profile, user=account, feature_gates=gates, name="slurm-scheduler")
        return said

    def uninstall_chart(self) -> str:
        """Run ``helm uninstall``; return its output."""
        self.scheduler.stop()
        return self._helm("uninstall", RELEASE)

    def configuration(self, *overrides: Mapping[str, Mapping[str, Any]]) -> str:
        """Return the text of the chart's configuration, with this machine's addresses and files."""
        at = self.addresses
        tls = self._secret("slurm-extender-tls")
        here: dict[str, Mapping[str, Any]] = {
            "kubernetes": {"kubeconfig": str(self.kube.kubeconfig_for(EXTENDER))},
            "slurm": {"tokenFile": str(self._secret("slurm-extender") / "token")},
            "http": {
                "bind": f"127.0.0.1:{at.scheduling}",
                "tls": {
                    "certificateFile": str(tls / "tls.crt"),
                    "keyFile": str(tls / "tls.key"),
                    "clientCaFile": str(tls / "ca.crt"),
                },
            },
            "hooks": {
                "bind": f"127.0.0.1:{at.hooks}",
                "url": f"http://127.0.0.1:{at.hooks}",
                "keyFile": str(self._secret("slurm-extender-hooks") / "hooks-key"),
            },
            "observability": {
                "healthBind": f"127.0.0.1:{at.health}",
                "metricsBind": f"127.0.0.1:{at.metrics}",
                "debugBind": f"127.0.0.1:{at.debug}",
            },
        }
        whole = dict(self._document)
        for override in (here, *overrides):
            for group, keys in override.items():
                whole[group] = {**whole.get(group, {}), **keys}
        return yaml.safe_dump(whole, sort_keys=False)

    def _make_certificates(self) -> None:
        """Do what the chart's Job does, with its rights; the lab's names are those of loopback."""
        command = [str(PROGRAM), "generate", "certificates", "--san", "127.0.0.1"]
        command += ["--kubeconfig", str(self.kube.kubeconfig_for(CERTIFICATES))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            raise LabError(f"no certificates were made: {done.stdout}{done.stderr}")

    def _secret(self, name: str) -> Path:
        return mount(self.kube, NAMESPACE, name, self.kube.home / "mounted" / name)

    def _helm(self, *words: str, values: Mapping[str, Any] | None = None) -> str:
        return helm(*words, f"--kubeconfig={self.kube.kubeconfig}", f"--namespace={NAMESPACE}", values=values)
