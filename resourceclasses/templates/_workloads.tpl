{{/* What values change of a Deployment or DaemonSet, in place. Takes: root, object, values (controller or kubeletPlugin). */}}
{{- define "rootport.workload" -}}
{{- $template := .object.spec.template -}}
{{- $pod := $template.spec -}}
{{- $container := first $pod.containers -}}
{{- $image := .root.Values.image -}}
{{- $tag := printf ":%s" ($image.tag | default .root.Chart.AppVersion) -}}
{{- if $image.digest -}}
{{- $tag = printf "@%s" $image.digest -}}
{{- end -}}
{{- $_ := set $container "image" (printf "%s%s" $image.repository $tag) -}}
{{- $_ := set $container "imagePullPolicy" $image.pullPolicy -}}
{{- $_ := set $container "resources" .values.resources -}}
{{- with .root.Values.imagePullSecrets -}}
{{- $_ := set $pod "imagePullSecrets" . -}}
{{- end -}}
{{- $_ := set $pod "nodeSelector" .values.nodeSelector -}}
{{- $_ := set $pod "tolerations" .values.tolerations -}}
{{- $_ := set $pod "priorityClassName" .values.priorityClassName -}}
{{- $_ := set $template.metadata "labels" (merge (dict) $template.metadata.labels .values.podLabels) -}}
{{- $_ := set $template.metadata "annotations" (merge (dict) $template.metadata.annotations .values.podAnnotations) -}}
{{- if ne .values.logLevel "info" -}}
{{- $_ := set $container "args" (append $container.args (printf "--log-level=%s" .values.logLevel)) -}}
{{- end -}}
{{- $_ := set $container "args" (concat $container.args .values.extraArgs) -}}
{{- end -}}

{{/* What values change of the controller's Deployment, in place. Takes: root, object. */}}
{{- define "rootport.controller" -}}
{{- $values := .root.Values.controller -}}
{{- $container := first .object.spec.template.spec.containers -}}
{{- $_ := set .object.spec "replicas" $values.replicas -}}
{{- if not .root.Values.dashboard.enabled -}}
{{- $_ := set $container "args" (append (without $container.args "--https-port=8443") "--https-port=0") -}}
{{- $ports := list -}}
{{- range $port := $container.ports -}}
{{- if ne $port.name "https" -}}
{{- $ports = append $ports $port -}}
{{- end -}}
{{- end -}}
{{- $_ := set $container "ports" $ports -}}
{{- end -}}
{{- include "rootport.workload" (dict "root" .root "object" .object "values" $values) -}}
{{- end -}}

{{/* What values change of the plugin's DaemonSet, in place. Takes: root, object. */}}
{{- define "rootport.plugin" -}}
{{- $values := .root.Values.kubeletPlugin -}}
{{- $pod := .object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- $_ := set .object.spec "updateStrategy" $values.updateStrategy -}}
{{- $moved := dict "/var/lib/kubelet" $values.kubeletDir "/etc/cni/net.d" .root.Values.cni.confDir "/opt/cni/bin" .root.Values.cni.binDir -}}
{{- $args := list -}}
{{- range $arg := $container.args -}}
{{- range $from, $to := $moved -}}
{{- $arg = $arg | replace (printf "=%s" $from) (printf "=%s" $to) -}}
{{- end -}}
{{- $args = append $args $arg -}}
{{- end -}}
{{- if ne $values.kubeletDir "/var/lib/kubelet" -}}
{{- $args = concat $args (list (printf "--plugin-dir=%s/plugins/rootport.dev" $values.kubeletDir) (printf "--registry-dir=%s/plugins_registry" $values.kubeletDir) (printf "--pod-resources-socket=%s/pod-resources/kubelet.sock" $values.kubeletDir)) -}}
{{- end -}}
{{- $_ := set $container "args" $args -}}
{{- /* The kubelet, the runtime and the plugin know a file by one path, so that of the mount is moved with that of the host. */ -}}
{{- range $from, $to := $moved -}}
{{- range $mount := $container.volumeMounts -}}
{{- if hasPrefix $from $mount.mountPath -}}
{{- $_ := set $mount "mountPath" (printf "%s%s" $to (trimPrefix $from $mount.mountPath)) -}}
{{- end -}}
{{- end -}}
{{- range $volume := $pod.volumes -}}
{{- if and $volume.hostPath (hasPrefix $from ($volume.hostPath | default dict).path) -}}
{{- $_ := set $volume.hostPath "path" (printf "%s%s" $to (trimPrefix $from $volume.hostPath.path)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $values.privileged -}}
{{- $_ := unset $pod "hostPID" -}}
{{- $_ := unset $container.securityContext "privileged" -}}
{{- $_ := set $container.securityContext "allowPrivilegeEscalation" false -}}
{{- $_ := set $container.securityContext "capabilities" (dict "drop" (list "ALL")) -}}
{{- $_ := set $container.securityContext "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- end -}}
{{- $_ := set $container "env" (concat $container.env $values.extraEnv) -}}
{{- $_ := set $pod "volumes" (concat $pod.volumes $values.extraVolumes) -}}
{{- $_ := set $container "volumeMounts" (concat $container.volumeMounts $values.extraVolumeMounts) -}}
{{- include "rootport.workload" (dict "root" .root "object" .object "values" $values) -}}
{{- end -}}
