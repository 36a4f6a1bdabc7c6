{{/*
base/ has the objects that `vipnat manifest` prints. The templates read them, and change what values ask for. So only one place
defines how vipnat runs.
*/}}

{{/* A file of base/. Takes a list: the root, the path of the file. */}}
{{- define "vipnat.base" -}}
{{- $text := (index . 0).Files.Get (index . 1) -}}
{{- if not $text -}}
{{- fail "this folder of the sources is no whole chart. scripts/release chart makes the chart" -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/* An object of base/ by its kind, as YAML. Takes a list: the root, the kind. */}}
{{- define "vipnat.object" -}}
{{- $root := index . 0 -}}
{{- $kind := index . 1 -}}
{{- $file := ternary "base/daemonset-least-privilege.yaml" "base/daemonset.yaml" $root.Values.leastPrivilege -}}
{{- range include "vipnat.base" (list $root $file) | splitList "\n---\n" -}}
{{- $object := fromYaml . -}}
{{- if eq $object.kind $kind -}}
{{- $_ := set $object.metadata "labels" (merge (include "vipnat.labels" $root | fromYaml) $object.metadata.labels) -}}
{{- toYaml $object -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels by which Helm's users find objects, in addition to the labels of base/. */}}
{{- define "vipnat.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end -}}

{{- define "vipnat.image" -}}
{{- with .Values.image.digest -}}
{{ $.Values.image.repository }}@{{ . }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Where the agent listens, and where balancers do: at all addresses if Prometheus is to read them. Empty: as base/ has it. */}}
{{- define "vipnat.listen" -}}
{{ .Values.options.listen | default (.Values.prometheus.podMonitor.enabled | ternary "0.0.0.0:10268" "") }}
{{- end -}}
{{- define "vipnat.balancerListen" -}}
{{ .Values.services.balancerListen | default (.Values.prometheus.podMonitor.enabled | ternary "0.0.0.0:10269" "") }}
{{- end -}}

{{/*
A PodMonitor. Takes a dict: root, name, namespace and programs. Each program has the label of its pods, its container, its port, and
what becomes the label instance. Pods declare no port, because two pods of a host could not both have it, so the address is made here.
*/}}
{{- define "vipnat.podMonitor" -}}
{{- $values := .root.Values.prometheus.podMonitor -}}
{{- $name := .name -}}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels: {{- merge (dict "app.kubernetes.io/name" .name) (include "vipnat.labels" .root | fromYaml) $values.additionalLabels | toYaml | nindent 4 }}
  {{- with $values.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  selector:
    matchExpressions:
      - key: app.kubernetes.io/name
        operator: In
        values:
          {{- range .programs }}
          - {{ .app }}
          {{- end }}
  podMetricsEndpoints:
    {{- range .programs }}
    - path: /metrics
      {{- with $values.interval }}
      interval: {{ . }}
      {{- end }}
      {{- with $values.scrapeTimeout }}
      scrapeTimeout: {{ . }}
      {{- end }}
      relabelings:
        - action: keep
          sourceLabels: [__meta_kubernetes_pod_label_app_kubernetes_io_name, __meta_kubernetes_pod_container_name]
          regex: {{ .app }};{{ .container }}
        - sourceLabels: [__meta_kubernetes_pod_ip]
          regex: ([0-9.]+)
          targetLabel: __address__
          replacement: $1:{{ .port }}
        - sourceLabels: [__meta_kubernetes_pod_ip]
          regex: (.*:.*)
          targetLabel: __address__
          replacement: '[$1]:{{ .port }}'
        - sourceLabels: [__meta_kubernetes_pod_{{ .instance }}]
          targetLabel: instance
        - targetLabel: job
          replacement: {{ $name }}
        {{- with $values.relabelings }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.metricRelabelings }}
      metricRelabelings: {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
{{- end -}}

{{/* Refuses values that contradict each other, or that nothing would read. Each value does what it says, or is refused in words. */}}
{{- define "vipnat.refuse" -}}
{{- $services := .Values.services -}}
{{- $octet := "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])" -}}
{{- $ipv4 := printf "%s([.]%s){3}" $octet $octet -}}
{{- $groups := "[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4})" -}}
{{- $ipv6 := printf "(%s{7}|(%s{0,6})?::(%s{0,6})?)" $groups $groups $groups -}}
{{- $port := "(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})" -}}
{{- if not (or .Values.vips $services.enabled) -}}
{{- fail "set vips, for example --set 'vips={10.0.0.50}', or services.enabled=true" -}}
{{- end -}}
{{- if not .Values.vips -}}
{{- $ofPods := list "extraArgs" "resources" "tolerations" "affinity" "nodeSelector" "priorityClassName" "podLabels" "podAnnotations" -}}
{{- $usual := dict "serviceAccount" (dict "create" true "name" "vipnat" "annotations" dict) -}}
{{- range $name := concat $ofPods (list "options" "leastPrivilege" "seLinuxOptions" "updateStrategy" "serviceAccount") -}}
{{- $value := get $.Values $name -}}
{{- if and $value (ne (toJson $value) (get $usual $name | toJson)) -}}
{{- $instead := printf ", or set services.controller.%s and services.balancer.%s" $name $name -}}
{{- fail (printf "%s is a value of the agent, which runs only with vips. Set vips%s" $name (has $name $ofPods | ternary $instead "")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $services.enabled -}}
{{- range $name, $value := omit $services "enabled" "controller" "balancer" -}}
{{- if $value -}}
{{- fail (printf "services.%s needs services.enabled=true" $name) -}}
{{- end -}}
{{- end -}}
{{- range $program := list "controller" "balancer" -}}
{{- range $name, $value := get $services $program -}}
{{- if $value -}}
{{- fail (printf "services.%s.%s needs services.enabled=true" $program $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else if semverCompare "<1.31.0-0" .Capabilities.KubeVersion.Version -}}
{{- fail (printf "services.enabled needs Kubernetes 1.31 or later, and this is %s. Without it, the chart installs the agent only" .Capabilities.KubeVersion.Version) -}}
{{- else if .Release.IsUpgrade -}}
{{- range list "AddressPool" "VirtualIP" "LoadBalancerDevice" -}}
{{- if not ($.Capabilities.APIVersions.Has (printf "vipnat.io/v1alpha1/%s" .)) -}}
{{- fail (printf "the cluster has no definition of %s, and helm upgrade installs none. First run: helm show crds CHART | kubectl apply -f -" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $services.defaultDevice $services.defaultClass -}}
{{- fail "services.defaultDevice and services.defaultClass exclude each other: both are about Services without a class. Leave one out" -}}
{{- end -}}
{{- $hosts := list -}}
{{- $sockets := list -}}
{{- range .Values.vips -}}
{{- include "vipnat.check" (list . "vips" (printf "^(%s(:%s)?|%s|\\[%s\\](:%s)?)$" $ipv4 $port $ipv6 $ipv6 $port) "an address such as 10.0.0.50, 10.0.0.50:6443 or [fd00::50]:6443") -}}
{{- $host := include "vipnat.host" (list . "vips") -}}
{{- $socket := printf "%s %s" $host (regexFind "[0-9]+$" (regexFind "([.][0-9]+|\\]):[0-9]+$" .) | default "6443") -}}
{{- if has $socket $sockets -}}
{{- fail (printf "vips: %s is given twice" .) -}}
{{- end -}}
{{- $hosts = append $hosts $host -}}
{{- $sockets = append $sockets $socket -}}
{{- end -}}
{{- range $services.pool -}}
{{- include "vipnat.check" (list . "services.pool" (printf "^(%s(/(3[0-2]|[12]?[0-9])|-%s)?|%s(/(12[0-8]|1[01][0-9]|[1-9]?[0-9])|-%s)?)$" $ipv4 $ipv4 $ipv6 $ipv6) "a range such as 10.0.9.10-10.0.9.99 or 10.0.9.0/24") -}}
{{- $ends := splitList "-" . -}}
{{- $shape := regexReplaceAll "[0-9a-fA-F]+" (last $ends) "x" -}}
{{- if and (eq $shape (regexReplaceAll "[0-9a-fA-F]+" (first $ends) "x")) (gt (include "vipnat.sortable" (first $ends)) (include "vipnat.sortable" (last $ends))) -}}
{{- fail (printf "services.pool: %s ends before it begins" .) -}}
{{- end -}}
{{- end -}}
{{- $options := .Values.options -}}
{{- $endpoint := printf "(%s|\\[%s\\]):%s" $ipv4 $ipv6 $port -}}
{{- range $name, $listen := dict "options.listen" $options.listen "services.balancerListen" $services.balancerListen -}}
{{- with $listen -}}
{{- include "vipnat.check" (list . $name (printf "^(off|%s)$" $endpoint) "an address and a port such as 127.0.0.1:10269, or off") -}}
{{- if has (regexReplaceAll "^\\[?([^\\]]*)\\]?:" . "${1} ") $sockets -}}
{{- fail (printf "%s: %s is one of vips" $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.prometheus.podMonitor.enabled -}}
{{- range $name, $listen := dict "options.listen" $options.listen "services.balancerListen" $services.balancerListen -}}
{{- if regexMatch "^(off$|127[.]|\\[::1\\])" ($listen | default "") -}}
{{- fail (printf "prometheus.podMonitor: no Prometheus reaches %s=%s. Leave %s out, or set an address of the nodes' network" $name $listen $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not $services.enabled) -}}
{{- fail "networkPolicy is about controllers, and needs services.enabled=true. Agents are in the network of their nodes, where no policy applies" -}}
{{- end -}}
{{- $agentPort := $options.listen | default ":10268" | regexFind "[0-9]+$" -}}
{{- if and $services.enabled $agentPort (eq $agentPort ($services.balancerListen | default ":10269" | regexFind "[0-9]+$")) -}}
{{- fail (printf "options.listen of the agent and services.balancerListen have the same port, %s, on each node" $agentPort) -}}
{{- end -}}
{{- range $name, $form := dict "clusterIp" (list (printf "^(%s|%s)$" $ipv4 $ipv6) "an address such as 10.96.0.1") "endpoints" (list (printf "^%s$" $endpoint) "an address and a port such as 10.0.0.11:6443") -}}
{{- $value := get $options $name | default list -}}
{{- range kindIs "string" $value | ternary (toString $value | splitList ",") $value -}}
{{- include "vipnat.check" (list (trim .) (printf "options.%s" $name) (first $form) (last $form)) -}}
{{- $host := include "vipnat.host" (list (trim .) (printf "options.%s" $name)) -}}
{{- if has $host $hosts -}}
{{- fail (printf "options.%s: %s is an address of vips" $name .) -}}
{{- end -}}
{{- if not (contains (contains ":" $host | ternary ":" ".") (join " " $hosts)) -}}
{{- fail (printf "options.%s: %s is of an address family that vips has not" $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name := list "probeInterval" "probeTimeout" -}}
{{- with get $options $name -}}
{{- include "vipnat.check" (list . (printf "options.%s" $name) "^((2[0-9]|[3-9][0-9]|[1-9][0-9]{2,3})([.][0-9]{1,3})?ms|10000ms|0[.](0[2-9]|[1-9])[0-9]{0,2}s|[1-9]([.][0-9]{1,3})?s|10s)$" "a duration such as 250ms or 1.5s, from 20ms to 10s") -}}
{{- end -}}
{{- end -}}
{{- if and (has (toString $options.method) (list "rr" "hash" "lc")) (has $options.mode (list "service-chain" "cluster-ip")) -}}
{{- fail (printf "options.method=%s needs options.mode=direct or auto: with %s, kube-proxy chooses" $options.method $options.mode) -}}
{{- end -}}
{{- $names := dict -}}
{{- range $name, $usual := dict "caFile" "" "kubeconfig" "" "runDir" "/run/vipnat" "stateDir" "/var/lib/vipnat" -}}
{{- with get $options $name | default $usual -}}
{{- include "vipnat.check" (list . (printf "options.%s" $name) "^(/[^/:]+)+/?$" "a path that begins with / and has no colon") -}}
{{- $path := trimSuffix "/" . -}}
{{- with get $names $path -}}
{{- fail (printf "options.%s and options.%s are the same path, %s" . $name $path) -}}
{{- end -}}
{{- $_ := set $names $path $name -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The container's arguments, as a YAML list. Takes a list: the root, and the arguments in base/. An option replaces the argument of
base/ with the same name.
*/}}
{{- define "vipnat.args" -}}
{{- $root := index . 0 -}}
{{- $args := list -}}
{{- range $root.Values.vips -}}
{{- $args = append $args (printf "--vip=%s" .) -}}
{{- end -}}
{{- $listen := include "vipnat.listen" $root -}}
{{- range $name, $value := merge (dict) $root.Values.options (empty $listen | ternary (dict) (dict "listen" $listen)) -}}
{{- $text := kindIs "slice" $value | ternary (join "," $value) (toString $value) -}}
{{- $args = append $args (printf "--%s=%s" (kebabcase $name) $text) -}}
{{- end -}}
{{- $flags := list -}}
{{- range $args -}}
{{- $flags = append $flags (splitList "=" . | first) -}}
{{- end -}}
{{- $preset := list -}}
{{- range index . 1 -}}
{{- if not (has (splitList "=" . | first) $flags) -}}
{{- $preset = append $preset . -}}
{{- end -}}
{{- end -}}
{{- /* Kubernetes puts variables in place of $(NAME), and takes $$ for $. */ -}}
{{- $escaped := list -}}
{{- range concat $args $root.Values.extraArgs -}}
{{- $escaped = append $escaped (replace "$" "$$" .) -}}
{{- end -}}
{{- concat $preset $escaped | toYaml -}}
{{- end -}}

{{/* The address of ADDR, ADDR:PORT or [ADDR]:PORT. Refuses one that not one host can have. Takes a list: the value, its name. */}}
{{- define "vipnat.host" -}}
{{- if regexMatch "^\\[?((0|127|22[4-9]|23[0-9])[.]|169[.]254[.]|(255[.]){3}255|::1?(\\]|$)|[fF][eE][89abAB][0-9a-fA-F]:|[fF]{2}[0-9a-fA-F]{2}:|::[fF]{4}:)" (first .) -}}
{{- fail (printf "%s: %s is not an address of one host" (last .) (first .)) -}}
{{- end -}}
{{- regexReplaceAll "^\\[([^\\]]*)\\].*$|^([0-9.]+)(:.*)?$" (first .) "${1}${2}" | lower -}}
{{- end -}}

{{/* An address as text that sorts like the number, among addresses with the same places of dots and colons. */}}
{{- define "vipnat.sortable" -}}
{{- range regexSplit "[.:]" . -1 -}}
{{- printf "%4s" (lower .) -}}
{{- end -}}
{{- end -}}

{{/* Refuses a value. Takes a list: the value, its name, the pattern that it has to match, and what it has to be, in words. */}}
{{- define "vipnat.check" -}}
{{- if not (regexMatch (index . 2) (index . 0 | toString)) -}}
{{- fail (printf "%s: %v is not %s" (index . 1) (index . 0) (index . 3)) -}}
{{- end -}}
{{- end -}}
