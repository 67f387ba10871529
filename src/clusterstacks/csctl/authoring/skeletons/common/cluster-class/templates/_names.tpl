{{/* Everything of one release carries its version, so that several releases live side by side in one namespace. */}}
{{- define "class.name" -}}
{{ .Release.Name }}-{{ .Chart.Version }}
{{- end }}
