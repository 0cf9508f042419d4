{{- define "ptk.labels" -}}
app.kubernetes.io/name: ptkstore
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Arguments: root, component. */}}
{{- define "ptk.selector" -}}
app.kubernetes.io/name: ptkstore
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The same in one line. */}}
{{- define "ptk.pods" -}}
{app.kubernetes.io/name: ptkstore, app.kubernetes.io/instance: {{ .root.Release.Name }}, app.kubernetes.io/component: {{ .component }}}
{{- end }}

{{- define "ptk.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Arguments: root, uid, and the seccomp profile where it is not the runtime's. */}}
{{- define "ptk.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .uid }}
  runAsGroup: {{ .uid }}
  fsGroup: {{ .uid }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {{ toJson (.seccomp | default (dict "type" "RuntimeDefault")) }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "ptk.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "ptk.env" -}}
envFrom:
  - configMapRef: {name: {{ .Release.Name }}-settings}
env:
{{- range $name, $key := dict "PTK_DATABASE_URL" "database-url" "PTK_REDIS_URL" "redis-url" "PTK_METRICS_TOKEN" "metrics-token" "AWS_ACCESS_KEY_ID" "s3-access-key" "AWS_SECRET_ACCESS_KEY" "s3-secret-key" }}
  - name: {{ $name }}
    valueFrom: {secretKeyRef: {name: {{ $.Values.secretName }}, key: {{ $key }}}}
{{- end }}
  - name: PTK_DEVICES_REDIS_URL    # without it devices are answered with 503
    valueFrom: {secretKeyRef: {name: {{ .Values.secretName }}, key: devices-redis-url, optional: true}}
{{- end }}

{{- define "ptk.volumes" -}}
- name: home
  persistentVolumeClaim: {claimName: {{ .Release.Name }}-home}
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.temporary.size }}}
{{- end }}

{{- define "ptk.mounts" -}}
- {name: home, mountPath: /var/lib/ptk}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{/* One process of the service. Arguments: root, component, command, and what else the container has. */}}
{{- define "ptk.deployment" -}}
{{- $root := .root -}}
{{- $values := index $root.Values .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $root.Release.Name }}-{{ .component }}
  labels: {{ include "ptk.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  replicas: {{ ternary 0 $values.replicas $root.Values.maintenance }}
  selector:
    matchLabels: {{ include "ptk.selector" . | nindent 6 }}
  template:
    metadata:
      labels: {{ include "ptk.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
        ptkstore/home: "yes"
      annotations:
        checksum/settings: {{ include (print $root.Template.BasePath "/settings.yaml") $root | sha256sum }}
    spec:
      {{- $seccomp := ternary $root.Values.teamCode.seccompProfile (dict) (has .component (list "api" "worker")) }}
      {{- include "ptk.podSecurity" (dict "root" $root "uid" 10001 "seccomp" $seccomp) | nindent 6 }}
      terminationGracePeriodSeconds: 60
      {{- include "ptk.placement" . | nindent 6 }}
      initContainers:
        - name: catalog    # holds the pod back while an upgrade is due
          image: {{ include "ptk.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: [ptk, catalog, upgrade, --check]
          {{- include "ptk.env" $root | nindent 10 }}
          {{- include "ptk.containerSecurity" $root | nindent 10 }}
          resources:
            requests: {cpu: 100m, memory: 256Mi}
            limits: {memory: 1Gi}
          volumeMounts: {{ include "ptk.mounts" $root | nindent 12 }}
      containers:
        - name: {{ .component }}
          image: {{ include "ptk.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: {{ toJson .command }}
          {{- include "ptk.env" $root | nindent 10 }}
          {{- include "ptk.containerSecurity" $root | nindent 10 }}
          resources: {{ toYaml $values.resources | nindent 12 }}
          {{- if eq .component "api" }}
          ports:
            - {name: http, containerPort: {{ $values.port }}}
          startupProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 3, failureThreshold: 40}
          livenessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 10, failureThreshold: 6, timeoutSeconds: 5}
          readinessProbe: {httpGet: {path: '/readyz?only=requests', port: http}, periodSeconds: 10, timeoutSeconds: 8}
          {{- else }}
          startupProbe: {exec: {command: &alive [sh, -c, 'test -n "$(find /tmp/alive -mmin -1)"']}, periodSeconds: 5, failureThreshold: 60, timeoutSeconds: 5}
          livenessProbe: {exec: {command: *alive}, periodSeconds: 30, failureThreshold: 10, timeoutSeconds: 5}
          {{- end }}
          volumeMounts: {{ include "ptk.mounts" $root | nindent 12 }}
      volumes: {{ include "ptk.volumes" $root | nindent 8 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $root.Release.Name }}-{{ .component }}
  labels: {{ include "ptk.labels" $root | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{ include "ptk.selector" . | nindent 6 }}
{{- end }}

{{- define "ptk.placement" -}}
{{- if .root.Values.home.singleNode -}}
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app.kubernetes.io/instance: {{ .root.Release.Name }}
            ptkstore/home: "yes"
{{- else -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "ptk.selector" . | nindent 8 }}
{{- end }}
{{- end }}
