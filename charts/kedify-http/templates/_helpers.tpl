{{/* kedify-http.selector returns the labels that select the Pods of a component. Existing Services and policies rely on
them. The argument is the component. */}}
{{- define "kedify-http.selector" -}}
app.kubernetes.io/name: http-add-on
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* kedify-http.common returns the labels of this release. The argument is the root. */}}
{{- define "kedify-http.common" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/part-of: kedify-http
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* kedify-http.labels returns the labels of an object. The arguments are the root and the component. */}}
{{- define "kedify-http.labels" -}}
{{ include "kedify-http.selector" (index . 1) }}
{{ include "kedify-http.common" (index . 0) }}
{{- end }}

{{/* kedify-http.extraLabels returns the labels of a value. The arguments are the name of the value and the labels. */}}
{{- define "kedify-http.extraLabels" -}}
{{- $own := list "name" "component" "instance" "version" "part-of" "managed-by" -}}
{{- range $key, $label := index . 1 }}
{{- if or (and (hasPrefix "app.kubernetes.io/" $key) (has (base $key) $own)) (eq $key "helm.sh/chart") }}
{{- fail (printf "values: %s: the chart sets label %s: use another one" (index $ 0) $key) }}
{{- end }}
{{ $key }}: {{ $label | quote }}
{{- end }}
{{- end }}

{{/* kedify-http.monitorLabels returns the labels of a PodMonitor. The argument is the root. */}}
{{- define "kedify-http.monitorLabels" -}}
{{ include "kedify-http.common" . }}
{{- with .Values.podMonitors.labels }}
{{ include "kedify-http.extraLabels" (list "podMonitors.labels" .) | trim }}
{{- end }}
{{- end }}

{{/* kedify-http.image returns the image of a component. The arguments are the root and the component. */}}
{{- define "kedify-http.image" -}}
{{- $root := index . 0 -}}
{{- $image := $root.Values.image -}}
{{- (index $root.Values (index . 1)).image | default (printf "%s/argo-rollouts-plugin/%s:%s"
  (trimSuffix "/" $image.registry) (index . 1) ($image.tag | default $root.Chart.AppVersion)) -}}
{{- end }}

{{/* kedify-http.checkAddOn fails in the namespace of the KEDA HTTP add-on, whose objects have the same names. Without a
cluster, such as in `helm template`, it checks nothing. The argument is the root. */}}
{{- define "kedify-http.checkAddOn" -}}
{{- $operator := "keda-add-ons-http-operator" -}}
{{- if lookup "apps/v1" "Deployment" .Release.Namespace $operator -}}
{{- fail (printf "Deployment %s/%s belongs to the KEDA HTTP add-on, whose objects have the same names: %s"
  .Release.Namespace $operator "install into another namespace, and migrate (docs/how-to/migrate.md)") -}}
{{- end -}}
{{- end }}

{{/* kedify-http.checkProxyImage fails if the admission policy would reject the agent's proxies. The tag of the default
image is that of the agent's version, so any tag in a prefix is accepted. The argument is the root. */}}
{{- define "kedify-http.checkProxyImage" -}}
{{- $prefixes := .Values.agent.admissionPolicies.proxyImagePrefixes -}}
{{- $own := .Values.proxies.image -}}
{{- $image := $own | default "envoyproxy/envoy:" -}}
{{- $isAllowed := or (not $prefixes) (not .Values.agent.installProxies) -}}
{{- range $prefixes -}}
{{- if or (hasPrefix . $image) (and (not $own) (hasPrefix $image .)) -}}{{- $isAllowed = true -}}{{- end -}}
{{- end -}}
{{- if not $isAllowed -}}
{{- $problem := printf "no prefix matches the image of the proxies, %s" (trimSuffix ":" $image) -}}
{{- fail (printf "values: agent.admissionPolicies.proxyImagePrefixes: %s: add its prefix, or set proxies.image"
  $problem) -}}
{{- end -}}
{{- end }}

{{/* kedify-http.wires returns a text if the agent reads and writes Ingresses, HTTPRoutes, VirtualServices and Routes, else nothing. The argument is
the root. */}}
{{- define "kedify-http.wires" -}}
{{- if or .Values.agent.autowire .Values.agent.restoreBackends -}}true{{- end -}}
{{- end }}

{{/* kedify-http.subject returns the subjects of a role binding. The arguments are the root and the component. */}}
{{- define "kedify-http.subject" -}}
subjects:
  - kind: ServiceAccount
    name: kedify-http-{{ index . 1 }}
    namespace: {{ (index . 0).Release.Namespace | quote }}
{{- end }}

{{/* kedify-http.clusterBinding returns the binding of a ClusterRole for the whole cluster. The arguments are the root,
the component and the name of the role. */}}
{{- define "kedify-http.clusterBinding" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ index . 2 }}
  labels:
    {{- include "kedify-http.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ index . 2 }}
{{ include "kedify-http.subject" . }}
{{- end }}

{{/* kedify-http.namespacedBinding returns the binding of a ClusterRole in a namespace. Its name differs from that of
the Role in the release's namespace. The arguments are the root, the component, the name of the role and the namespace.
*/}}
{{- define "kedify-http.namespacedBinding" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ index . 2 }}-served
  namespace: {{ index . 3 | quote }}
  labels:
    {{- include "kedify-http.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ index . 2 }}
{{ include "kedify-http.subject" . }}
{{- end }}

{{/* kedify-http.servedBinding returns the bindings of a ClusterRole for the namespaces that the release serves. The
arguments are those of kedify-http.clusterBinding. */}}
{{- define "kedify-http.servedBinding" -}}
{{- $arguments := . -}}
{{- range (index . 0).Values.watchNamespaces }}
{{ include "kedify-http.namespacedBinding" (append $arguments .) }}
{{- else }}
{{- include "kedify-http.clusterBinding" . }}
{{- end }}
{{- end }}

{{/* kedify-http.roleBinding returns the binding of a Role in the release's namespace. The arguments are the root, the
component and the name of the role. */}}
{{- define "kedify-http.roleBinding" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ index . 2 }}
  namespace: {{ (index . 0).Release.Namespace | quote }}
  labels:
    {{- include "kedify-http.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ index . 2 }}
{{ include "kedify-http.subject" . }}
{{- end }}

{{/* kedify-http.podMetadata returns the metadata of a component's Pods. The arguments are the root and the component.
*/}}
{{- define "kedify-http.podMetadata" -}}
{{- $pods := (index . 0).Values.pods -}}
labels:
  {{- include "kedify-http.selector" (index . 1) | nindent 2 }}
  app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
  app.kubernetes.io/part-of: kedify-http
  {{- with $pods.labels }}
  {{- include "kedify-http.extraLabels" (list "pods.labels" .) | trim | nindent 2 }}
  {{- end }}
{{- with $pods.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* kedify-http.podSpec returns what the Pods of all components have in common. The arguments are the root and the
component. */}}
{{- define "kedify-http.podSpec" -}}
{{- $pods := (index . 0).Values.pods -}}
{{- $component := index . 1 -}}
serviceAccountName: kedify-http-{{ $component }}
{{- with (index . 0).Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pods.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
# Longer than --shutdown-delay plus --shutdown-deadline.
terminationGracePeriodSeconds: 30
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
topologySpreadConstraints:
  {{- $zones := ternary (list "topology.kubernetes.io/zone") (list) $pods.spreadOverZones }}
  {{- range concat (list "kubernetes.io/hostname") $zones }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "kedify-http.selector" $component | nindent 8 }}
  {{- end }}
# The Pod of a failed node is replaced after 30 s instead of 5 min.
tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
  {{- with $pods.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $pods.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pods.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* kedify-http.probes returns the probes, the resources and the securityContext of a container. The arguments are the
root, the component and the name of the port with /livez and /readyz. */}}
{{- define "kedify-http.probes" -}}
livenessProbe:
  httpGet:
    path: /livez
    port: {{ index . 2 }}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ index . 2 }}
  periodSeconds: 1
  failureThreshold: 1
resources:
  {{- toYaml (index (index . 0).Values (index . 1)).resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: ["ALL"]
{{- end }}

{{/* kedify-http.disruptionBudget returns the PodDisruptionBudget of a component, which allows one disruption at a time.
A single replica may be evicted. Otherwise it would block the drain of its node forever. Any number of replicas sets the
same field: after the release has taken over a budget, both fields together would be invalid. The arguments are the
root, the component and the name of the Deployment. */}}
{{- define "kedify-http.disruptionBudget" -}}
{{- $root := index . 0 -}}
{{- $replicas := int (index $root.Values (index . 1)).replicas -}}
{{- if $root.Values.pods.disruptionBudgets }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ index . 2 }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "kedify-http.labels" . | nindent 4 }}
spec:
  {{- if eq (index . 1) "interceptor" }}
  maxUnavailable: 1
  {{- else }}
  minAvailable: {{ sub $replicas 1 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "kedify-http.selector" (index . 1) | nindent 6 }}
{{- end }}
{{- end }}

{{/* kedify-http.controllerBinding returns the binding of a ClusterRole to the Argo Rollouts controller. The arguments
are the root and the name of the role. */}}
{{- define "kedify-http.controllerBinding" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "kedify-http.common" (index . 0) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ index . 1 }}
subjects:
  - kind: ServiceAccount
    name: {{ (index . 0).Values.argoRollouts.serviceAccount | quote }}
    namespace: {{ (index . 0).Values.argoRollouts.namespace | quote }}
{{- end }}

{{/* kedify-http.plugin returns the entry of a plugin in the list of the Argo Rollouts controller. The arguments are the
name, the values and the flags of the plugin. */}}
{{- define "kedify-http.plugin" -}}
{{- $plugin := index . 1 -}}
- name: {{ index . 0 | quote }}
  location: {{ $plugin.location | quote }}
{{- with $plugin.sha256 }}
  sha256: {{ . | quote }}
{{- end }}
{{- with index . 2 }}
  args: {{ toJson . }}
{{- end }}
{{- end }}

{{/* kedify-http.plugins returns the list of the enabled plugins. The argument is the root. */}}
{{- define "kedify-http.plugins" -}}
{{- $rollouts := .Values.argoRollouts -}}
{{- with $rollouts.kedifyHTTP }}
{{- if .enabled }}
{{- /* The default of the flag is namespace keda. */}}
{{- $args := list }}
{{- if ne $.Release.Namespace "keda" }}
{{- $args = list (printf "--interceptor-namespace=%s" $.Release.Namespace) }}
{{- end }}
{{ include "kedify-http.plugin" (list "kedify/http" . (concat $args .args)) }}
{{- end }}
{{- end }}
{{- with $rollouts.gatewayAPI }}
{{- if .enabled }}
{{ include "kedify-http.plugin" (list "argoproj-labs/gatewayAPI" . .args) }}
{{- end }}
{{- end }}
{{- end }}

{{/* kedify-http.logArgs returns the flags of values logs, as JSON. The argument is the root. */}}
{{- define "kedify-http.logArgs" -}}
{{- $args := list -}}
{{- with .Values.logs -}}
{{- if ne .level "info" }}{{ $args = append $args (printf "--log-level=%s" .level) }}{{ end -}}
{{- if ne .format "json" }}{{ $args = append $args (printf "--log-format=%s" .format) }}{{ end -}}
{{- end -}}
{{- toJson $args -}}
{{- end }}

{{/* kedify-http.telemetryArgs returns the flags of values tracing and accessLog, as JSON. The argument is the root. */}}
{{- define "kedify-http.telemetryArgs" -}}
{{- toJson (concat (include "kedify-http.tracingArgs" .Values.tracing | fromJsonArray)
  (include "kedify-http.accessLogArgs" .Values.accessLog | fromJsonArray)) -}}
{{- end }}

{{/* kedify-http.tracingArgs returns the flags of value tracing, which is the argument, as JSON. */}}
{{- define "kedify-http.tracingArgs" -}}
{{- $args := list -}}
{{- if .endpoint -}}
{{- if and (hasPrefix "https://" .endpoint) (not .caConfigMap) -}}
{{- fail "values: tracing.endpoint: a collector with https needs the CA of its certificate: set tracing.caConfigMap" -}}
{{- end -}}
{{- $args = append $args (printf "--tracing-endpoint=%s" .endpoint) -}}
{{- if ne (toString .sampling) "1" }}{{ $args = append $args (printf "--tracing-sampling=%v" .sampling) }}{{ end -}}
{{- if .caConfigMap }}{{ $args = append $args "--tracing-ca-file=/etc/kedify/tracing/ca.crt" }}{{ end -}}
{{- end -}}
{{- toJson $args -}}
{{- end }}

{{/* kedify-http.accessLogArgs returns the flags of value accessLog, which is the argument, as JSON. The kubelet would
replace $(NAME) in a flag by an environment variable. */}}
{{- define "kedify-http.accessLogArgs" -}}
{{- $args := list -}}
{{- if not .enabled -}}
{{- $args = append $args "--access-log=false" -}}
{{- else -}}
{{- $sampling := toString .sampling -}}
{{- if and .fields (ne .format "json") -}}
{{- fail "values: accessLog.fields: the format is text: set accessLog.format to json, or add the commands to it" -}}
{{- end -}}
{{- if and .filter (eq $sampling "100") -}}
{{- fail "values: accessLog.sampling: at 100, accessLog.filter has no effect: use less than 100" -}}
{{- end -}}
{{- if ne .format "json" }}{{ $args = append $args (printf "--access-log-format=%s" .format) }}{{ end -}}
{{- range $name, $format := .fields -}}
{{- $field := printf "%s=%s" $name $format -}}
{{- /* The flag is a list, separated by commas, if it contains several equals signs. */ -}}
{{- if contains "=" $format }}{{ $field = printf "\"%s\"" $field }}{{ end -}}
{{- $args = append $args (printf "--access-log-fields=%s" $field) -}}
{{- end -}}
{{- with .filter }}{{ $args = append $args (printf "--access-log-filter=%s" (join "," .)) }}{{ end -}}
{{- if ne $sampling "" }}{{ $args = append $args (printf "--access-log-sampling=%s" $sampling) }}{{ end -}}
{{- end -}}
{{- toJson $args | replace "$" "$$" -}}
{{- end }}
