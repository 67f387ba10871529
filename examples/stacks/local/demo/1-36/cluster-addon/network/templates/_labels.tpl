{{- define "network.labels" -}}
{{ include "network.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "network.selector" -}}
app.kubernetes.io/name: demo-network
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
