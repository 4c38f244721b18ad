{{/* What every object is part of. Its name and component stand with it. */}}
{{- define "slurm-extender.labels" -}}
app.kubernetes.io/part-of: slurm-extender
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "slurm-extender.image" -}}
"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
{{- end }}

{{/* Whether the certificates are made by our own command. */}}
{{- define "slurm-extender.makes-certificates" -}}
{{- if or (eq .Values.tls "certificates") (and (eq .Values.tls "none") (eq .Values.gate "webhook")) }}true{{ end }}
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
# Slurm's node has to be in the list that the extender is shown.
percentageOfNodesToScore: 100
podInitialBackoffSeconds: 1
# Bounds how often a Pod that waits without a scheduling gate is asked about.
podMaxBackoffSeconds: 60
profiles:
  - schedulerName: {{ .Values.config.scheduler.name }}
    plugins:
      multiPoint:
        disabled:
          # Slurm counts. With it, a Pod that finds every node full would never reach the extender, hence no queue.
          - name: NodeResourcesFit
          - name: NodeResourcesBalancedAllocation
          - name: ImageLocality
          # Would evict Pods for one that Slurm has not placed; Slurm preempts by its own rules.
          - name: DefaultPreemption
extenders:
  - urlPrefix: {{ if eq .Values.tls "none" }}http{{ else }}https{{ end }}://slurm-extender.{{ .Release.Namespace }}.svc:8080/scheduler
    filterVerb: filter
    bindVerb: bind
    {{- if ne .Values.tls "none" }}
    # Says nothing by itself, but without a caFile it would turn verification off.
    enableHTTPS: true
    tlsConfig:
      caFile: /etc/slurm-scheduler/tls/ca.crt
      certFile: /etc/slurm-scheduler/tls/tls.crt
      keyFile: /etc/slurm-scheduler/tls/tls.key
    {{- end }}
    httpTimeout: 5s
    # Names instead of whole Node objects.
    nodeCacheCapable: true
    # Ignored, an extender that is away would let every Pod onto every node.
    ignorable: false
{{- end }}
