{{- /* Sets values that are null or missing to those of values.yaml, as if they were not given. Kubernetes has
defaults for the parts of resources and security contexts, so null removes those. */}}
{{- define "operator.defaults" -}}
{{- include "operator.fill" (dict "values" .Values "defaults" (.Files.Get "files/values.yaml" | fromYaml)) -}}
{{- end }}

{{- define "operator.fill" -}}
{{- range $name, $default := .defaults -}}
{{- if not (has $name (list "resources" "podSecurityContext" "securityContext")) -}}
{{- if kindIs "invalid" (index $.values $name) -}}
{{- $_ := set $.values $name $default -}}
{{- else if kindIs "map" $default -}}
{{- include "operator.fill" (dict "values" (index $.values $name) "defaults" $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Value of app.kubernetes.io/name, with takeOver as in the chart of the Go operator. */}}
{{- define "operator.chart" -}}
{{- if .Values.takeOver -}}
{{- .Values.nameOverride | default "cso" -}}
{{- else -}}
{{- .Chart.Name -}}
{{- end -}}
{{- end }}

{{- define "operator.name" -}}
{{- $chart := include "operator.chart" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $chart .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $chart | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "operator.deployment" -}}
{{ include "operator.name" . }}{{ if .Values.takeOver }}-controller-manager{{ end }}
{{- end }}

{{- define "operator.webhookService" -}}
{{ include "operator.name" . }}-webhook{{ if .Values.takeOver }}-service{{ end }}
{{- end }}

{{- /* A value of the Go operator's chart, with the default of that chart: (dict "root" $ "name" "ociRegistry"). */}}
{{- define "operator.goVariable" -}}
{{- $defaults := dict "ociRegistry" "registry.scs.community" "ociRepository" "registry.scs.community/kaas/cluster-stacks" "gitProvider" "github" "gitOrgName" "SovereignCloudStack" "gitRepoName" "cluster-stacks" -}}
{{- get (merge (dict) .root.Values.clusterStackVariables $defaults) .name -}}
{{- end }}

{{- /* Whether the source of releases comes from clusterStackVariables: github or oci, otherwise empty. */}}
{{- define "operator.goSource" -}}
{{- if and .Values.takeOver (not .Values.source.type) (not .Values.source.location) (not .Values.source.existingSecret) -}}
{{- dig "manager" "source" "oci" .Values.controllerManager -}}
{{- end -}}
{{- end }}

{{- /* Name of the ClusterRole. The operator makes the ClusterRole with the name of its
ValidatingWebhookConfiguration the owner of that, so that it is deleted with the chart. */}}
{{- define "operator.clusterName" -}}
cluster-stack-operator{{ with .Values.watchNamespace }}-{{ . }}{{ end }}
{{- end }}

{{- define "operator.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "operator.deployment" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{- /* A selector cannot be changed, so with takeOver it is that of the Go operator's chart. */}}
{{- define "operator.selector" -}}
app.kubernetes.io/name: {{ include "operator.chart" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- if .Values.takeOver }}
cluster.x-k8s.io/provider: cluster-stack-operator
control-plane: cso-controller-manager
{{- end }}
{{- end }}

{{- /* The shards with their names and images. The digest of the main image does not go with another tag. */}}
{{- define "operator.shards" -}}
{{- $shards := list -}}
{{- range .Values.shards -}}
{{- $shard := ternary (dict "name" .) . (kindIs "string" .) -}}
{{- $image := $shard.image | default dict -}}
{{- $common := ternary (omit $.Values.image "digest") $.Values.image (hasKey $image "tag") -}}
{{- $shards = append $shards (dict "name" $shard.name "image" (merge (dict) $image $common)) -}}
{{- end -}}
{{- toYaml $shards -}}
{{- end }}

{{- /* The selector of the pods of a shard, which the Services and selectors of the main instance do not match:
(dict "root" $ "shard" "emea"). An empty shard is the main instance; "*" stands for all shards. */}}
{{- define "operator.instanceSelector" -}}
{{- if .shard -}}
app.kubernetes.io/name: {{ printf "%s-shard" (include "operator.chart" .root) | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- if ne .shard "*" }}
clusterstack.x-k8s.io/shard: {{ .shard | quote }}
{{- end }}
{{- else -}}
{{ include "operator.selector" .root }}
{{- end -}}
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

{{- /* (dict "chart" .Chart "image" .Values.image) */}}
{{- define "operator.image" -}}
{{- $image := .image -}}
{{- $repository := required "image.repository must be set: where the image of the operator is" $image.repository -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* The rules of files/rights.yaml for some scopes: (dict "root" $ "scopes" (list "cluster")). Scope "everywhere" has
the verbs that an operator for one namespace needs in all of them. */}}
{{- define "operator.rules" -}}
{{- $root := .root -}}
{{- $features := dict "webhooks" $root.Values.webhook.enabled "disabled webhooks" (not $root.Values.webhook.enabled) "leader election" true "node images" $root.Values.nodeImages.enabled -}}
{{- range (fromYaml ($root.Files.Get "files/rights.yaml")).rights }}
{{- $verbs := ternary .everywhere .rule.verbs (has "everywhere" $.scopes) }}
{{- $wanted := not .features }}
{{- range .features }}{{ $wanted = or $wanted (get $features .) }}{{ end }}
{{- if and $verbs (or (has .scope $.scopes) (has "everywhere" $.scopes)) $wanted }}
{{- $rule := merge (dict "verbs" $verbs) .rule }}
{{- if has "cluster-stack-operator" ($rule.resourceNames | default list) }}
{{- $rule = merge (dict "resourceNames" (list (include "operator.clusterName" $root))) $rule }}
{{- end }}
{{- if has "clusterstack.x-k8s.io" ($rule.resourceNames | default list) }}
{{- $rule = merge (dict "resourceNames" (include "operator.leases" $root | fromYamlArray)) $rule }}
{{- end }}
# {{ .why }}
- {{ toYaml $rule | nindent 2 | trim }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Names of the Leases, as lease_name of clusterstacks.model.kinds.shards. */}}
{{- define "operator.leases" -}}
{{- $lease := "clusterstack.x-k8s.io" -}}
{{- with .Values.watchFilter -}}{{- $lease = printf "filter-%s.%s" (sha256sum . | trunc 8) $lease -}}{{- end -}}
{{- $leases := list $lease -}}
{{- range include "operator.shards" . | fromYamlArray -}}
{{- $leases = append $leases (printf "%s.%s" .name $lease) -}}
{{- end -}}
{{- toYaml $leases -}}
{{- end }}

{{- /* The rules for rbac.classKinds and rbac.providerKinds. */}}
{{- define "operator.kindRules" -}}
{{- range .Values.rbac.classKinds }}
# rbac.classKinds
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource | quote }}]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- range .Values.rbac.providerKinds }}
# rbac.providerKinds
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource | quote }}]
  verbs: [get, list, watch, create, patch]
{{- end }}
{{- end }}

{{- /* KIND.GROUP,... of rbac.classKinds or rbac.providerKinds. */}}
{{- define "operator.kinds" -}}
{{- range $index, $one := . }}{{ if $index }},{{ end }}{{ $one.kind }}.{{ $one.group }}{{ end }}
{{- end }}

{{- /* The variables that the source reads from the Secret of clusterStackVariables, with their keys. */}}
{{- define "operator.goVariables" -}}
{{- $source := include "operator.goSource" . -}}
{{- if eq $source "github" -}}
GIT_PROVIDER: git-provider
GIT_ORG_NAME: git-org-name
GIT_REPOSITORY_NAME: git-repo-name
GIT_ACCESS_TOKEN: git-access-token
{{- else if $source -}}
OCI_REGISTRY: oci-registry
OCI_REPOSITORY: oci-repository
OCI_ACCESS_TOKEN: oci-access-token
OCI_USERNAME: oci-username
OCI_PASSWORD: oci-password
{{- end -}}
{{- end }}
