"""Name the labels and annotations by which Kubernetes and other projects say which Pods belong together."""

from __future__ import annotations

COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
"""Label of scheduler-plugins: the PodGroup of this Pod."""

KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
"""Label of Kueue: the group of this Pod."""

KUEUE_SIZE = "kueue.x-k8s.io/pod-group-total-count"
"""Annotation of Kueue: how many Pods the group has."""

KUEUE_INDEX_LABEL = "kueue.x-k8s.io/pod-group-pod-index-label"
"""Annotation of Kueue: the label that holds the index of the Pod."""

KUEUE_SERVING = "kueue.x-k8s.io/pod-group-serving"
"""Annotation of Kueue, "true": the Pods of the group serve, and not all of them need to exist at the same time."""

VOLCANO_GROUPS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Annotations of Volcano: the PodGroup of this Pod."""

LWS_PREFIX = "leaderworkerset.sigs.k8s.io/"
LWS_NAME = f"{LWS_PREFIX}name"
LWS_GROUP_INDEX = f"{LWS_PREFIX}group-index"
LWS_WORKER_INDEX = f"{LWS_PREFIX}worker-index"
LWS_SIZE = f"{LWS_PREFIX}size"
"""Annotation of LeaderWorkerSet, the other three are labels: how many Pods a group has, its leader included."""

JOBSET_PREFIX = "jobset.sigs.k8s.io/"
JOBSET_NAME = f"{JOBSET_PREFIX}jobset-name"
JOBSET_UID = f"{JOBSET_PREFIX}jobset-uid"
JOBSET_REPLICATED_JOB = f"{JOBSET_PREFIX}replicatedjob-name"
JOBSET_JOB_INDEX = f"{JOBSET_PREFIX}job-index"
JOBSET_GLOBAL_INDEX = f"{JOBSET_PREFIX}job-global-index"
"""Counts the Jobs of a JobSet through all of its replicated Jobs, in their order."""

JOBSET_ATTEMPT = f"{JOBSET_PREFIX}restart-attempt"

JOB_INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of an Indexed Job's Pod."""

STATEFUL_SET_INDEX = "apps.kubernetes.io/pod-index"

KUBEFLOW_JOB = "training.kubeflow.org/job-name"
KUBEFLOW_INDEX = "training.kubeflow.org/replica-index"
KUBEFLOW_TYPE = "training.kubeflow.org/replica-type"
RAY_TYPE = "ray.io/node-type"

FIRST_TYPES = frozenset({"head", "master", "chief", "launcher"})
"""Values of the two types above whose Pods come before all others."""
