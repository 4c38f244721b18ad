"""On which Nodes a Pod may be, as kube-scheduler's filters and kubelet's sums would have it."""
