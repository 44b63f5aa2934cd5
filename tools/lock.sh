#!/usr/bin/env bash
# Resolve the lock files anew from pyproject.toml: versions and hashes alone, no addresses of registries.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'pip-tools>=7.5'
compile=("$work/venv/bin/pip-compile" --quiet --generate-hashes --strip-extras --allow-unsafe --no-header --upgrade
  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options)
"${compile[@]}" --output-file requirements.lock pyproject.toml
"${compile[@]}" --extra dev --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml
