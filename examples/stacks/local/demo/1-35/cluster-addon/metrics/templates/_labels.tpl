{{- define "metrics.labels" -}}
{{ include "metrics.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "metrics.selector" -}}
app.kubernetes.io/name: demo-metrics
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
