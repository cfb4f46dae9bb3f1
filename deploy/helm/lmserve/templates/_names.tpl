{{- define "lmserve.selector" -}}
app.kubernetes.io/name: lmserve
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lmserve.labels" -}}
{{ include "lmserve.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "lmserve.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "lmserve.store" -}}
- name: LMSERVE_STORE
  value: {{ .Values.store.url | quote }}
- name: LMSERVE_OBJECTS
  value: {{ required "store.objects is missing: servers with a database need an object store" .Values.store.objects | quote }}
{{- end }}
