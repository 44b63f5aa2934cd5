{{/* What values change of the other objects, in place. Takes: root, object. */}}
{{- define "rootport.object" -}}
{{- $values := .root.Values -}}
{{- $object := .object -}}
{{- $name := $object.metadata.name -}}
{{- if and (eq $object.kind "CustomResourceDefinition") $values.crds.keep -}}
{{- $_ := set $object.metadata "annotations" (merge (dict "helm.sh/resource-policy" "keep") ($object.metadata.annotations | default dict)) -}}
{{- else if eq $object.kind "ConfigMap" -}}
{{- range $file, $text := $object.data -}}
{{- $document := fromYaml $text -}}
{{- $given := dict "GpuPolicies" (dict "policies" $values.gpuPolicies) "NicPolicies" (dict "policies" $values.nicPolicies) "DevicePolicies" (dict "policies" $values.devicePolicies) "ResourceMap" $values.resourceMap -}}
{{- range $key, $value := index $given $document.kind -}}
{{- if $value -}}
{{- $_ := set $object.data $file (toYaml (merge (index $given $document.kind) $document)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else if eq $object.kind "NetworkPolicy" -}}
{{- range $rule := $object.spec.ingress -}}
{{- $peers := ternary $values.networkPolicy.metricsFrom $values.networkPolicy.httpsFrom (eq (first $rule.ports).port "health") -}}
{{- if $peers -}}
{{- $_ := set $rule "from" $peers -}}
{{- end -}}
{{- end -}}
{{- else if has $object.kind (list "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration") -}}
{{- /* Once it has configured a webhook, the controller keeps the failure policy, by its option: Helm would only dispute it. */ -}}
{{- $live := lookup $object.apiVersion $object.kind "" $name | default dict -}}
{{- range $hook := $object.webhooks -}}
{{- range $kept := $live.webhooks | default list -}}
{{- if and (eq $kept.name $hook.name) $kept.clientConfig.caBundle -}}
{{- $_ := set $hook "failurePolicy" $kept.failurePolicy -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else if has $object.kind (list "PodMonitor" "PrometheusRule") -}}
{{- $_ := set $object.metadata "labels" (merge (dict) ($object.metadata.labels | default dict) $values.monitoring.labels) -}}
{{- end -}}
{{- end -}}

{{/* Whether values leave an object out; says "yes". Takes: root, object. */}}
{{- define "rootport.left-out" -}}
{{- $kind := .object.kind -}}
{{- if eq $kind "Namespace" -}}
yes{{- /* Helm keeps the release in it, so that it is there before, and stays. */ -}}
{{- else if and (eq $kind "CustomResourceDefinition") (not .root.Values.crds.enabled) -}}
yes
{{- else if and (eq $kind "Service") (eq .object.metadata.name "rootport-dashboard") (not .root.Values.dashboard.enabled) -}}
yes
{{- else if and (eq $kind "PodDisruptionBudget") (lt (int .root.Values.controller.replicas) 2) -}}
yes{{- /* It would keep the only pod on its node for ever. */ -}}
{{- end -}}
{{- end -}}

{{/* The labels of every object, as JSON. */}}
{{- define "rootport.labels" -}}
{{- $kustomization := include "rootport.file" (dict "root" . "path" "kustomization.yaml") | fromYaml -}}
{{- $labels := dict "helm.sh/chart" (printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_")) "app.kubernetes.io/instance" .Release.Name "app.kubernetes.io/managed-by" .Release.Service "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- range $entry := $kustomization.labels -}}
{{- $labels = merge $labels $entry.pairs -}}
{{- end -}}
{{- merge $labels .Values.labels | toJson -}}
{{- end -}}
