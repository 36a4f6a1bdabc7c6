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
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
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
{{- range $name, $value := $root.Values.options -}}
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
