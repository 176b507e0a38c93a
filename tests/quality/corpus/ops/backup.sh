#!/bin/sh
# Dumps the database every night and keeps the last seven dumps.
set -eu

TARGET="${BACKUP_DIR:-/var/backups/shop}"
KEEP=7

dump_database() {
    pg_dump --format=custom "$DATABASE_URL" > "$TARGET/$(date +%F).dump"
}

prune_old_dumps() {
    ls -1t "$TARGET"/*.dump | tail -n +$((KEEP + 1)) | xargs -r rm --
}

mkdir -p "$TARGET"
dump_database
prune_old_dumps
