#!/usr/bin/env bash
set -euo pipefail

readonly REGION="eu-1"
export PATH="/opt/bin:$PATH"

log() {
  printf '%s\n' "$*" >&2
}

function build_image {
  local tag="$1"
  docker build -t "shop:${tag}" . <<DOCKER
FROM scratch
DOCKER
}

deploy() {
  if [[ -z "${1:-}" ]]; then
    log "no tag"
    return 1
  fi
  build_image "$1"
}

for stage in test live; do
  deploy "$stage"
done
