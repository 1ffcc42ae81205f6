#!/bin/sh
# Run by the image of PostgreSQL when it makes its data: the role of the services.
set -e
psql -v ON_ERROR_STOP=1 -v password="$(cat /run/secrets/worker_password)" -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
CREATE ROLE worker LOGIN PASSWORD :'password';
SQL
