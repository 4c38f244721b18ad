"""The service: a kube-scheduler extender that lets Slurm place Kubernetes Pods."""

__version__ = "0.1.0"
