{{- define "operator.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- /* Name of the ClusterRole. The operator makes the ClusterRole with the name of its
ValidatingWebhookConfiguration the owner of that, so that it is deleted with the chart. */}}
{{- define "operator.clusterName" -}}
cluster-stack-operator{{ with .Values.watchNamespace }}-{{ . }}{{ end }}
{{- end }}

{{- define "operator.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "operator.name" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{- define "operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Labels and annotations of an object without further ones. */}}
{{- define "operator.metadata" -}}
labels:
  {{- include "operator.labels" . | nindent 2 }}
{{- with .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "operator.image" -}}
{{- $image := .Values.image -}}
{{- $repository := required "image.repository must be set: where the image of the operator is" $image.repository -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* The rules of files/rights.yaml for one scope: (dict "root" $ "scope" "cluster"). */}}
{{- define "operator.rules" -}}
{{- $root := .root -}}
{{- $features := dict "webhooks" $root.Values.webhook.enabled "leader election" true -}}
{{- range (fromYaml ($root.Files.Get "files/rights.yaml")).rights }}
{{- if and (eq .scope $.scope) (or (not .feature) (get $features (.feature | default ""))) }}
{{- $rule := .rule }}
{{- if has "cluster-stack-operator" ($rule.resourceNames | default list) }}
{{- $rule = merge (dict "resourceNames" (list (include "operator.clusterName" $root))) $rule }}
{{- end }}
# {{ .why }}
- {{ toYaml $rule | nindent 2 | trim }}
{{- end }}
{{- end }}
{{- end }}

{{- /* KIND.GROUP,... of rbac.classKinds or rbac.providerKinds. */}}
{{- define "operator.kinds" -}}
{{- range $index, $one := . }}{{ if $index }},{{ end }}{{ $one.kind }}.{{ $one.group }}{{ end }}
{{- end }}
