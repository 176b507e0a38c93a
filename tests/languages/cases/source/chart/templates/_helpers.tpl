{{/* The name of everything. */}}
{{- define "shop.fullname" -}}
{{- if .Values.nameOverride -}}
{{ .Values.nameOverride | trunc 63 }}
{{- else -}}
{{ .Release.Name }}
{{- end -}}
{{- end }}

{{- define "shop.labels" -}}
app.kubernetes.io/name: {{ include "shop.fullname" . }}
{{- end }}
