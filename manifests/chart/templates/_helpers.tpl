{{/* What every object is part of. Its name and component stand with it. */}}
{{- define "slurm-extender.labels" -}}
app.kubernetes.io/part-of: slurm-extender
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/*
Behind the names of objects that are in no namespace or not in the release's: its namespace, so that releases for several
Slurm clusters do not collide. A namespace holds one release.
*/}}
{{- define "slurm-extender.suffix" -}}
{{- if ne .Release.Namespace "slurm-extender" }}-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{- define "slurm-extender.image" -}}
"{{ required "image.repository: no registry has the image of the extender yet. Build it (docs/administration.md), and name the repository that you pushed it to" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
{{- end }}

{{/*
The version in which the API server serves MutatingAdmissionPolicy: by default from 1.36 on, before that as a beta where an
administrator turned it on. Empty: it does not.
*/}}
{{- define "slurm-extender.policy-version" -}}
{{- $has := .Capabilities.APIVersions }}
{{- if or ($has.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version) }}v1
{{- else if $has.Has "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy" }}v1beta1
{{- end }}
{{- end }}

{{/* What puts the scheduling gate on Pods: policy, webhook or none. */}}
{{- define "slurm-extender.gate" -}}
{{- $served := include "slurm-extender.policy-version" . }}
{{- if and (eq .Values.schedulingGate "policy") (not $served) }}
{{- fail (printf "schedulingGate: policy needs a MutatingAdmissionPolicy, which Kubernetes serves from 1.36 on, and 1.34 and 1.35 where an administrator turned it on; this is %s. Set schedulingGate: webhook" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- if eq .Values.schedulingGate "auto" }}{{ ternary "policy" "webhook" (ne $served "") }}{{ else }}{{ .Values.schedulingGate }}{{ end }}
{{- end }}

{{/* Whether `slurm-extender generate certificates` makes the certificates. */}}
{{- define "slurm-extender.makes-certificates" -}}
{{- if or (eq .Values.tls "certificates") (and (eq .Values.tls "none") (eq (include "slurm-extender.gate" .) "webhook")) }}true{{ end }}
{{- end }}

{{/*
With SchedulerPopFromBackoffQ on, rejected Pods come back without their back-off; before 1.33 the gate is unknown.
SchedulerAsyncAPICalls was on by default in the first releases of 1.34 and 1.35, where writes about Pods that wait held binds up.
*/}}
{{- define "slurm-extender.gates" -}}
{{- $minor := .Capabilities.KubeVersion.Version | trimPrefix "v" | semver }}
{{- if kindIs "string" .Values.scheduler.featureGates }}{{ .Values.scheduler.featureGates }}
{{- else if lt $minor.Minor 33 }}
{{- else if or (eq $minor.Minor 34) (eq $minor.Minor 35) }}SchedulerPopFromBackoffQ=false,SchedulerAsyncAPICalls=false
{{- else }}SchedulerPopFromBackoffQ=false
{{- end }}
{{- end }}

{{/* Distributions put a suffix of their own behind the version, which no image of kube-scheduler has. */}}
{{- define "slurm-extender.kube-version" -}}
{{ regexReplaceAll "[-+].*$" .Capabilities.KubeVersion.Version "" }}
{{- end }}

{{/* The namespaces in config.scope; with them, what is written in namespaces is allowed by Roles. */}}
{{- define "slurm-extender.scoped" -}}
{{- dig "scope" "namespaces" list .Values.config | default list | join " " }}
{{- end }}

{{/* Not empty where Pods are read in the namespaces of config.scope alone, by the Roles there. */}}
{{- define "slurm-extender.reads-namespaces" -}}
{{- if eq (dig "scope" "readPods" "all" .Values.config) "namespaces" }}yes{{ end }}
{{- end }}

{{/* What is read of all Pods then: what they take of a node, and whether one of them still runs there. */}}
{{- define "slurm-extender.reading" -}}
{{- if not (include "slurm-extender.reads-namespaces" .) -}}
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
{{- end }}
{{- end }}

{{/* Metadata that every Pod of the chart gets besides its own, and no other object. */}}
{{- define "slurm-extender.pod-annotations" -}}
{{- with .Values.podAnnotations }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "slurm-extender.pod-labels" -}}
{{- with .Values.podLabels }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* The environment of the extender but for its part in the election. */}}
{{- define "slurm-extender.env" -}}
{{- if ne .Values.tls "none" }}
- {name: SLURM_EXTENDER__HTTP__TLS__CERTIFICATE_FILE, value: /etc/slurm-extender/tls/tls.crt}
- {name: SLURM_EXTENDER__HTTP__TLS__KEY_FILE, value: /etc/slurm-extender/tls/tls.key}
- {name: SLURM_EXTENDER__HTTP__TLS__CLIENT_CA_FILE, value: /etc/slurm-extender/tls/ca.crt}
- {name: SLURM_EXTENDER__LEADER_ELECTION__TLS_SERVER_NAME, value: slurm-extender.{{ .Release.Namespace }}.svc}
{{- end }}
{{- if eq (include "slurm-extender.gate" .) "webhook" }}
- {name: SLURM_EXTENDER__ADMISSION__BIND, value: ":8443"}
- {name: SLURM_EXTENDER__ADMISSION__TLS__CERTIFICATE_FILE, value: /etc/slurm-extender/webhook-tls/tls.crt}
- {name: SLURM_EXTENDER__ADMISSION__TLS__KEY_FILE, value: /etc/slurm-extender/webhook-tls/tls.key}
{{- end }}
{{- if .Values.podPolicy }}
- {name: SLURM_EXTENDER__JOBS__POLICY_FILE, value: /etc/slurm-extender/policy/policy.yaml}
{{- end }}
{{- with .Values.podGroups }}
- {name: SLURM_EXTENDER__GANGS__POD_GROUPS, value: {{ toJson . | squote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The files of the extender, and where they come from. */}}
{{- define "slurm-extender.mounts" -}}
- {name: config, mountPath: /etc/slurm-extender/config, readOnly: true}
- {name: secret, mountPath: /etc/slurm-extender/secret, readOnly: true}
{{- if ne .Values.tls "none" }}
- {name: tls, mountPath: /etc/slurm-extender/tls, readOnly: true}
{{- end }}
{{- if eq (include "slurm-extender.gate" .) "webhook" }}
- {name: webhook-tls, mountPath: /etc/slurm-extender/webhook-tls, readOnly: true}
{{- end }}
{{- if .Values.podPolicy }}
- {name: policy, mountPath: /etc/slurm-extender/policy, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "slurm-extender.volumes" -}}
- name: config
  configMap:
    name: extender-config
- name: secret
  {{- if or .Values.hooksKeySecret (ne .Values.tokenKey "token") }}
  projected:
    defaultMode: 0440
    sources: # of the same key the last one counts
      - secret: {name: {{ .Values.secretName }}}
      {{- if ne .Values.tokenKey "token" }}
      - secret:
          name: {{ .Values.secretName }}
          items: [{key: {{ .Values.tokenKey | quote }}, path: token}]
      {{- end }}
      {{- with .Values.hooksKeySecret }}
      - secret:
          name: {{ . }}
          items: [{key: {{ $.Values.hooksKey }}, path: hooks-key}]
      {{- end }}
  {{- else }}
  secret:
    secretName: {{ .Values.secretName }}
    defaultMode: 0440
  {{- end }}
{{- if ne .Values.tls "none" }}
- name: tls
  secret:
    secretName: slurm-extender-tls
    defaultMode: 0440
{{- end }}
{{- if eq (include "slurm-extender.gate" .) "webhook" }}
- name: webhook-tls
  secret:
    secretName: slurm-extender-webhook-tls
    defaultMode: 0440
{{- end }}
{{- if .Values.podPolicy }}
- name: policy
  configMap:
    name: extender-policy
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where Pods of the chart may run. */}}
{{- define "slurm-extender.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end }}

{{/* The name by which Pods ask for Slurm. */}}
{{- define "slurm-extender.scheduler" -}}
{{- include "slurm-extender.checked" . }}{{ .Values.config.scheduler.name }}
{{- end }}

{{/* What the schema cannot say: where the configuration has to fit what else the chart makes. */}}
{{- define "slurm-extender.checked" -}}
{{- $config := .Values.config }}
{{- $name := dig "scheduler" "name" "" $config | default "" | toString }}
{{- if not (regexMatch "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$" $name) }}
{{- fail (printf "config.scheduler.name is %q: it must be what Pods have in spec.schedulerName, of letters, digits, dots, dashes and underscores" $name) }}
{{- end }}
{{- range $key, $port := dict "http.bind" ":8080" "hooks.bind" ":8000" "observability.healthBind" ":8081" "observability.metricsBind" ":8082" }}
{{- $path := splitList "." $key }}
{{- $given := dig (first $path) (last $path) "" $config | default "" }}
{{- if and (ne $given $port) (not (and (eq $key "hooks.bind") (eq $given ""))) }}
{{- fail (printf "config.%s is %q: it must be %q, where the chart's ports, probes and Services lead" $key $given $port) }}
{{- end }}
{{- end }}
{{- if dig "http" "tls" nil $config }}
{{- fail "config.http.tls: the chart sets it, and what kube-scheduler is told of it, by tls: certificates or tls: cert-manager" }}
{{- end }}
{{- if or (dig "admission" "bind" nil $config) (dig "admission" "tls" nil $config) }}
{{- fail "config.admission: the chart sets it, and the webhook with it, by schedulingGate: webhook" }}
{{- end }}
{{- if dig "gangs" "podGroups" nil $config }}
{{- fail "config.gangs.podGroups: the chart sets it, and the rights that it needs, by podGroups" }}
{{- end }}
{{- if and (dig "devices" nil $config) (not .Values.devices) }}
{{- fail "config.devices is given: devices must be true, which gives the rights that it needs" }}
{{- end }}
{{- if and (hasKey $config "cpus") (not .Values.devices) }}
{{- fail "config.cpus is given: devices must be true, which gives the rights that it needs" }}
{{- end }}
{{- if and .Values.closed (not .Values.networkPolicy.enabled) }}
{{- fail "closed: networkPolicy.enabled must be true, or nothing reaches the extender" }}
{{- end }}
{{- if and .Values.podPolicy (dig "jobs" "policyFile" nil $config) }}
{{- fail "config.jobs.policyFile and podPolicy are given: the extender reads one of them. Remove the other" }}
{{- end }}
{{- if not (dig "leaderElection" "enabled" true $config) }}
{{- fail "config.leaderElection.enabled: it must be true, since an update runs two replicas" }}
{{- end }}
{{- range list "namespace" "identity" "advertise" "tlsServerName" }}
{{- if dig "leaderElection" . nil $config }}
{{- fail (printf "config.leaderElection.%s: the chart sets it, for each replica. Remove it" .) }}
{{- end }}
{{- end }}
{{- if ne (dig "leaderElection" "leaseName" "slurm-extender" $config) "slurm-extender" }}
{{- fail "config.leaderElection.leaseName: it must be slurm-extender, the only Lease that the chart's Role lets it write" }}
{{- end }}
{{- end }}

{{/* The ports of slurmrestd, of the collector of traces, and of the hooks, which the doctor calls as Slurm's nodes do. */}}
{{- define "slurm-extender.called" -}}
{{- $ports := list }}
{{- $more := list (dig "observability" "tracesEndpoint" "" .Values.config | default "") (dig "hooks" "url" "" .Values.config | default "") }}
{{- range concat (dig "slurm" "addresses" list .Values.config) $more }}
{{- $url := urlParse . }}
{{- if $url.host }}
{{- $ports = append $ports (regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (eq $url.scheme "https" | ternary "443" "80")) }}
{{- end }}
{{- end }}
{{- $ports | default (list "6820") | join " " }}
{{- end }}

{{- define "slurm-extender.config" -}}
apiVersion: slurm-extender.io/v1alpha1
kind: ExtenderConfiguration
{{ toYaml .Values.config }}
{{- end }}

{{- define "slurm-extender.profile" -}}
# A kube-scheduler of its own: extenders belong to the whole process, so the default scheduler must not have this one.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceName: slurm-scheduler
  resourceNamespace: {{ .Release.Namespace }}
# Requests a second to the API server, and at once. By default 50 and 100: kube-scheduler writes a condition for each Pod
# that finds no node, and meanwhile schedules no other one, so Pods of one namespace delay those of all others.
clientConnection:
  qps: 500
  burst: 1000
# Slurm's node has to be in the list that the extender is shown.
percentageOfNodesToScore: 100
podInitialBackoffSeconds: 1
# Bounds how often a Pod that waits without a scheduling gate is asked about: up to seven times in its first minute, then
# once in this time. kube-scheduler doubles its back-off with each rejection, and does not go back.
podMaxBackoffSeconds: 60
profiles:
  - schedulerName: {{ include "slurm-extender.scheduler" . | quote }}
    plugins:
      multiPoint:
        disabled:
          # Slurm counts. With it, a Pod that finds every node full would never reach the extender, hence no queue.
          - name: NodeResourcesFit
          - name: NodeResourcesBalancedAllocation
          - name: ImageLocality
          # Would evict Pods for one that Slurm has not placed; Slurm preempts by its own rules.
          - name: DefaultPreemption
# Two entries for one extender, since each has one time-out. All Pods wait for one call of /filter, which is answered from
# memory. A call of /bind delays its own Pod alone; that of a gang's member is held until all members are accepted.
extenders:
  {{- range list "filter" "bind" }}
  - urlPrefix: {{ if eq $.Values.tls "none" }}http{{ else }}https{{ end }}://slurm-extender.{{ $.Release.Namespace }}.svc:8080/scheduler
    {{ . }}Verb: {{ . }}
    {{- if ne $.Values.tls "none" }}
    # Says nothing by itself, but without a caFile it would turn verification off.
    enableHTTPS: true
    tlsConfig:
      caFile: /etc/slurm-scheduler/tls/ca.crt
      certFile: /etc/slurm-scheduler/tls/tls.crt
      keyFile: /etc/slurm-scheduler/tls/tls.key
    {{- end }}
    {{- if eq . "filter" }}
    httpTimeout: 5s
    {{- else }}
    # Not shorter than http.bindTimeout of the extender's configuration.
    httpTimeout: {{ dig "http" "bindTimeout" "30s" $.Values.config | default "30s" }}
    {{- end }}
    # Names instead of whole Node objects.
    nodeCacheCapable: true
    # Ignored, an extender that is away would let every Pod onto every node.
    ignorable: false
  {{- end }}
{{- end }}
