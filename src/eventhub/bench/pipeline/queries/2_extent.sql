-- name: log_extent
-- From when to when the log goes, for a reader that is told the bounds of its parts.
SELECT min(created_at), max(created_at) FROM eventhub.event_log;
