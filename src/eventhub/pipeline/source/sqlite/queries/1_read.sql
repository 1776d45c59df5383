-- name: schema_version
SELECT value FROM eventhub_meta WHERE key = 'schema_version';

-- name: origin
SELECT 'sqlite:' || value FROM eventhub_meta WHERE key = 'hub';

-- name: horizon_events
-- Ids are given out under the write lock, so that they are committed in their order.
SELECT next FROM eventhub_sequence WHERE name = 'ids';

-- name: horizon_event_log
SELECT coalesce(max(id), 0) + 1 FROM eventhub_event_log;

-- name: horizon_audit
-- Of rows that were pruned, too: an id is never given twice.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'eventhub_audit'), 0) + 1;

-- name: first_events
SELECT coalesce(min(id), 0) FROM eventhub_events WHERE id >= :first;

-- name: first_event_log
SELECT coalesce(min(id), 0) FROM eventhub_event_log WHERE id >= :first;

-- name: first_audit
SELECT coalesce(min(id), 0) FROM eventhub_audit WHERE id >= :first;

-- name: after_events
-- The row that is one too many.
SELECT id FROM eventhub_events WHERE id >= :first AND id < :last ORDER BY id LIMIT 1 OFFSET :rows;

-- name: after_event_log
SELECT id FROM eventhub_event_log WHERE id >= :first AND id < :last ORDER BY id LIMIT 1 OFFSET :rows;

-- name: after_audit
SELECT id FROM eventhub_audit WHERE id >= :first AND id < :last ORDER BY id LIMIT 1 OFFSET :rows;

-- name: count_events
SELECT count(*) FROM (SELECT 1 FROM eventhub_events WHERE id >= :first AND id < :last LIMIT :most);

-- name: count_event_log
SELECT count(*) FROM (SELECT 1 FROM eventhub_event_log WHERE id >= :first AND id < :last LIMIT :most);

-- name: count_audit
SELECT count(*) FROM (SELECT 1 FROM eventhub_audit WHERE id >= :first AND id < :last LIMIT :most);
