-- name: forget_postgres
-- As if nothing had been copied yet: the same history is copied again, to another lake.
DELETE FROM eventhub.lake_commits;

-- name: forget_sqlite
DELETE FROM eventhub_lake_commits;
