#!/usr/bin/env bash
# Run once by the image, when its data directory is made: the hub's own user, who owns its database and nothing else.
set -euo pipefail
psql --username="$POSTGRES_USER" --set=ON_ERROR_STOP=1 --set=password="$(</run/secrets/eventhub.password)" <<'END'
CREATE ROLE eventhub LOGIN PASSWORD :'password' NOSUPERUSER NOCREATEDB NOCREATEROLE;
CREATE DATABASE eventhub OWNER eventhub;
REVOKE CONNECT, TEMPORARY ON DATABASE eventhub FROM PUBLIC;
END
