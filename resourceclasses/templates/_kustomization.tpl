{{/*
The manifests are those of the kustomization, read from its own files, so that each object is written once. Of kustomize
this knows what these files use: resources, labels, and patches by JSON path with a target. Anything else fails.
*/}}

{{/* The text of a file of the kustomization. Takes: root, path. */}}
{{- define "rootport.file" -}}
{{- $text := .root.Files.Get .path -}}
{{- if not $text -}}
{{- fail (printf "this copy of the chart lacks %s" .path) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/* Append the objects of a kustomization or component to into.objects, then apply its patches. Takes: root, path, into. */}}
{{- define "rootport.load" -}}
{{- $folder := dir .path -}}
{{- $kustomization := include "rootport.file" (dict "root" .root "path" .path) | fromYaml -}}
{{- range $key, $_ := omit $kustomization "apiVersion" "kind" "resources" "patches" "labels" "images" -}}
{{- fail (printf "%s: the chart does not know %s" $.path $key) -}}
{{- end -}}
{{- range $name := $kustomization.resources -}}
{{- $text := include "rootport.file" (dict "root" $.root "path" (clean (printf "%s/%s" $folder $name))) -}}
{{- range $part := splitList "\n---\n" (printf "\n%s" $text) -}}
{{- $object := fromYaml (printf "%s\n" $part) -}}
{{- if hasKey $object "kind" -}}
{{- $_ := set $.into "objects" (append $.into.objects $object) -}}
{{- else if $object -}}
{{- fail (printf "%s: %s" $name (toJson $object)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $patch := $kustomization.patches -}}
{{- $found := false -}}
{{- range $object := $.into.objects -}}
{{- $group := ternary (dir $object.apiVersion) "" (contains "/" $object.apiVersion) -}}
{{- if and (eq $group $patch.target.group) (eq $object.kind $patch.target.kind) (eq $object.metadata.name $patch.target.name) -}}
{{- $found = true -}}
{{- include "rootport.patch" (dict "object" $object "patch" $patch.patch) -}}
{{- end -}}
{{- end -}}
{{- if not $found -}}
{{- fail (printf "%s: nothing to patch: %s" $.path (toJson $patch.target)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Apply a JSON patch (RFC 6902) to an object, in place: test, replace a field, add a field or to a list's end. Takes: object, patch. */}}
{{- define "rootport.patch" -}}
{{- range $operation := fromYamlArray .patch -}}
{{- $tokens := rest (splitList "/" $operation.path) -}}
{{- $last := last $tokens -}}
{{- $node := $.object -}}
{{- $parent := dict -}}
{{- $key := "" -}}
{{- range $token := initial $tokens -}}
{{- $parent = $node -}}
{{- $key = $token -}}
{{- $node = index $node (ternary (int $token) $token (kindIs "slice" $node)) -}}
{{- end -}}
{{- if and (eq $operation.op "add") (eq $last "-") (kindIs "map" $parent) -}}
{{- $_ := set $parent $key (append $node $operation.value) -}}
{{- else if and (has $operation.op (list "add" "replace")) (kindIs "map" $node) -}}
{{- $_ := set $node $last $operation.value -}}
{{- else if and (eq $operation.op "test") (kindIs "map" $node) -}}
{{- if ne (toJson (index $node $last)) (toJson $operation.value) -}}
{{- fail (printf "%s is not %s" $operation.path (toJson $operation.value)) -}}
{{- end -}}
{{- else -}}
{{- fail (printf "the chart cannot %s %s" $operation.op $operation.path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
