-- name: old_event_days
-- What is open is looked for from the side of what is open, which is little. A day has 86,400,000,000 microseconds.
WITH open AS MATERIALIZED (
  SELECT event_id FROM eventhub_deliveries
  UNION SELECT event_id FROM eventhub_fanout
  UNION SELECT event_id FROM eventhub_dead_letters WHERE retried_at IS NULL)
SELECT e.created_at / 86400000000 AS day, count(*), min(e.id), max(e.id), count(o.event_id)
FROM eventhub_events e LEFT JOIN open o ON o.event_id = e.id
WHERE e.created_at < :before GROUP BY day ORDER BY day;

-- name: old_log_days
-- With :planned as if all old events that can go were gone. The newest row of all stays, too: ids go on from it, and
-- must never be given out again.
WITH open AS MATERIALIZED (
  SELECT event_id FROM eventhub_deliveries WHERE :planned
  UNION SELECT event_id FROM eventhub_fanout WHERE :planned
  UNION SELECT event_id FROM eventhub_dead_letters WHERE :planned AND retried_at IS NULL)
SELECT g.created_at / 86400000000 AS day, count(*), min(g.id), max(g.id),
       count(CASE WHEN g.id = (SELECT max(id) FROM eventhub_event_log) THEN 1
                  WHEN e.id IS NOT NULL
                   AND (NOT :planned OR e.created_at >= :before OR o.event_id IS NOT NULL) THEN 1 END)
FROM eventhub_event_log g LEFT JOIN eventhub_events e ON e.id = g.event_id LEFT JOIN open o ON o.event_id = e.id
WHERE g.created_at < :before GROUP BY day ORDER BY day;

-- name: events_with_log
SELECT DISTINCT g.event_id FROM eventhub_event_log g JOIN eventhub_events e ON e.id = g.event_id
WHERE g.created_at >= :first AND g.created_at < :last;

-- name: settled_events
-- Those of which nothing is open, and no log row at or above what was copied.
SELECT v.id FROM eventhub_events v
WHERE v.id IN (SELECT value FROM carray(:ids)) AND v.id < :copied
  AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = v.id)
  AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries m WHERE m.event_id = v.id AND m.subscriber IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM eventhub_fanout f WHERE f.event_id = v.id)
  AND NOT EXISTS (SELECT 1 FROM eventhub_dead_letters l WHERE l.event_id = v.id AND l.retried_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM eventhub_event_log g WHERE g.event_id = v.id AND g.id >= :log_copied);

-- name: end_keys
-- Keys outlive their events: from now on their time runs.
UPDATE eventhub_idempotency_keys SET ended_at = :now WHERE (scope, key, event_id) IN (
  SELECT r.queue || coalesce('/' || e.published_by, ''), e.idempotency_key, e.id
  FROM eventhub_events e JOIN eventhub_routes r ON r.id = e.route
  WHERE e.id IN (SELECT value FROM carray(:ids)) AND e.idempotency_key IS NOT NULL);

-- name: old_keys
-- Keys from before :before, those behind the last one that was seen, and whether they may be used again: their event has
-- ended and nothing happened to it since :before, or it was archived before that.
SELECT k.scope, k.key, k.created_at,
       CASE WHEN e.id IS NULL THEN coalesce(k.ended_at, k.created_at) < :before
            ELSE NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = e.id AND d.state <> 4)
             AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries m
                             WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state <> 4)
             AND NOT EXISTS (SELECT 1 FROM eventhub_fanout f WHERE f.event_id = e.id)
             AND NOT EXISTS (SELECT 1 FROM eventhub_event_log g WHERE g.event_id = e.id AND g.created_at >= :before) END
FROM eventhub_idempotency_keys k LEFT JOIN eventhub_events e ON e.id = k.event_id
WHERE k.created_at < :before AND k.created_at >= :created_at
  AND (k.created_at > :created_at OR (k.scope, k.key) > (:scope, :key))
ORDER BY k.created_at, k.scope, k.key LIMIT :limit;

-- name: prune_guards
DELETE FROM eventhub_guards WHERE event_id IN (SELECT value FROM carray(:ids));

-- name: prune_events
DELETE FROM eventhub_events WHERE id IN (SELECT value FROM carray(:ids));

-- name: prune_log
-- Without the newest row, as in old_log_days.
DELETE FROM eventhub_event_log
WHERE id IN (SELECT value FROM carray(:ids)) AND id < :copied AND created_at >= :first AND created_at < :last
  AND id < (SELECT max(id) FROM eventhub_event_log)
  AND NOT EXISTS (SELECT 1 FROM eventhub_events e WHERE e.id = event_id)
RETURNING id;
