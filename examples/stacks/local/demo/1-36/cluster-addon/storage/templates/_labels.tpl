{{- define "storage.labels" -}}
{{ include "storage.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "storage.selector" -}}
app.kubernetes.io/name: demo-storage
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
