{{/* Refuse what cannot work, before anything is installed. */}}
{{- define "rootport.checks" -}}
{{- $components := .Values.components -}}
{{- if ne .Release.Namespace "rootport-system" -}}
{{- fail (printf "Rootport is installed in the namespace rootport-system, not in %s: its admission policies and tools know it by that name; add `--namespace rootport-system --create-namespace`" .Release.Namespace) -}}
{{- end -}}
{{- range $name := list "webhookFailClosed" "convertWebhook" -}}
{{- if and (index $components $name) (not $components.webhook) -}}
{{- fail (printf "components.%s needs components.webhook: add `--set components.webhook=true`" $name) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "placement" "extendedResources" -}}
{{- if and (index $components $name) (semverCompare "<1.36.0-0" $.Capabilities.KubeVersion.Version) -}}
{{- fail (printf "components.%s needs Kubernetes 1.36 or newer; this is %s" $name $.Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end -}}
{{- if and $components.webhook (not .Values.dashboard.enabled) -}}
{{- fail "components.webhook needs dashboard.enabled: both are served on one port" -}}
{{- end -}}
{{- if and $components.cni (not .Values.kubeletPlugin.privileged) -}}
{{- fail "components.cni needs kubeletPlugin.privileged: it enters network namespaces" -}}
{{- end -}}
{{- if and (not .Values.crds.enabled) (not .Values.crds.keep) -}}
{{- fail "crds.enabled=false with crds.keep=false would delete the CRDs of a release that has them, and every NodeInventory and Device: leave crds.keep=true" -}}
{{- end -}}
{{- include "rootport.checks-of-the-cluster" . -}}
{{- end -}}

{{/* Refuse what would leave the cluster's objects in a bad state. Without a cluster, as for `helm template`, nothing is found. */}}
{{- define "rootport.checks-of-the-cluster" -}}
{{- if .Release.IsInstall -}}
{{- $asked := list (list "ValidatingWebhookConfiguration" "rootport" "webhook") (list "MutatingWebhookConfiguration" "rootport-convert" "convertWebhook") (list "MutatingWebhookConfiguration" "rootport-convert-claims" "convertWebhook") (list "MutatingAdmissionPolicy" "rootport-placement-gate" "placement") (list "MutatingAdmissionPolicy" "rootport-placement-gate-all" "placement") -}}
{{- range $entry := $asked -}}
{{- $kind := index $entry 0 -}}
{{- $name := index $entry 1 -}}
{{- $component := index $entry 2 -}}
{{- $is_off := not (index $.Values.components $component) -}}
{{- if and $is_off ($.Capabilities.APIVersions.Has (printf "admissionregistration.k8s.io/v1/%s" $kind)) -}}
{{- if lookup "admissionregistration.k8s.io/v1" $kind "" $name -}}
{{- /* Helm does not delete what no release has; claims or pods would be refused, or wait for ever. */ -}}
{{- fail (printf "the cluster has the %s %s, but with components.%s=false no controller would serve it: add `--set components.%s=true`, or delete it before: kubectl delete %s %s" $kind $name $component $component (lower $kind) $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else if not .Values.crds.enabled -}}
{{- range $name := list "devices.rootport.dev" "nodeinventories.rootport.dev" -}}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name | default dict -}}
{{- $annotations := dig "metadata" "annotations" dict $crd -}}
{{- if and (eq (get $annotations "meta.helm.sh/release-name") $.Release.Name) (ne (get $annotations "helm.sh/resource-policy") "keep") -}}
{{- /* Helm goes by the live object, which the former values have made. */ -}}
{{- fail (printf "crds.enabled=false would delete the CRD %s with all its objects, for the release has it with crds.keep=false: upgrade once with crds.keep=true before" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
