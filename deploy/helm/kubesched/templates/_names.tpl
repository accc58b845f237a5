{{- define "kubesched.labels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end }}

{{- define "kubesched.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "kubesched.isReplacement" -}}
{{- if eq .Values.mode "replacement" }}true{{ end }}
{{- end }}

{{- define "kubesched.isExtender" -}}
{{- if eq .Values.mode "extender" }}true{{ end }}
{{- end }}

{{/* The lease by which replicas agree on who decides. */}}
{{- define "kubesched.lease" -}}
{{ if include "kubesched.isReplacement" . }}kube-scheduler{{ else }}{{ .Release.Name }}{{ end }}
{{- end }}

{{- define "kubesched.leaseNamespace" -}}
{{ if include "kubesched.isReplacement" . }}kube-system{{ else }}{{ .Release.Namespace }}{{ end }}
{{- end }}

{{- define "kubesched.profiles" -}}
{{- if .Values.profiles }}
{{- toYaml .Values.profiles }}
{{- else if include "kubesched.isReplacement" . -}}
- schedulerName: default-scheduler
{{- else -}}
- schedulerName: {{ .Release.Name }}
{{- end }}
{{- end }}

{{/* A plugin as a flag takes it: one of pluginFiles by its path. */}}
{{- define "kubesched.plugin" -}}
{{- $file := first (splitList ":" .plugin) -}}
{{ if hasKey .files $file }}/etc/kubesched/{{ end }}{{ .plugin }}
{{- end }}

{{/* What a binding has below its name. */}}
{{- define "kubesched.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ .Release.Name }}
    namespace: {{ .Release.Namespace }}
{{- end }}
