-- name: old_event_days
-- What is open is looked for from the side of what is open, which is little.
WITH open AS MATERIALIZED (
  SELECT event_id FROM eventhub.deliveries
  UNION SELECT event_id FROM eventhub.fanout
  UNION SELECT event_id FROM eventhub.dead_letters WHERE retried_at IS NULL)
SELECT (e.created_at AT TIME ZONE 'UTC')::date AS day, count(*), min(e.id), max(e.id), count(o.event_id)
FROM eventhub.events e LEFT JOIN open o ON o.event_id = e.id
WHERE e.created_at < $1 GROUP BY day ORDER BY day;

-- name: old_log_days
-- With $2 as if all old events that can go were gone.
WITH open AS MATERIALIZED (
  SELECT event_id FROM eventhub.deliveries WHERE $2::boolean
  UNION SELECT event_id FROM eventhub.fanout WHERE $2
  UNION SELECT event_id FROM eventhub.dead_letters WHERE $2 AND retried_at IS NULL)
SELECT (g.created_at AT TIME ZONE 'UTC')::date AS day, count(*), min(g.id), max(g.id),
       count(*) FILTER (WHERE e.id IS NOT NULL AND (NOT $2 OR e.created_at >= $1 OR o.event_id IS NOT NULL))
FROM eventhub.event_log g LEFT JOIN eventhub.events e ON e.id = g.event_id LEFT JOIN open o ON o.event_id = e.id
WHERE g.created_at < $1 GROUP BY day ORDER BY day;

-- name: events_with_log
SELECT DISTINCT g.event_id FROM eventhub.event_log g JOIN eventhub.events e ON e.id = g.event_id
WHERE g.created_at >= $1 AND g.created_at < $2;

-- name: prune_events
-- One statement, one snapshot: an event of which it sees nothing open, and no log row at or above what was copied, is
-- settled for good. The rows of the log that are not copied yet are found by their transactions, once for all; each
-- other question is a look-up by itself. Who is being pruned by another at this moment is left to it.
WITH fresh AS MATERIALIZED (SELECT event_id FROM eventhub.event_log WHERE xid >= $3),
wanted AS MATERIALIZED (
  SELECT u.id FROM unnest($1::bigint[]) AS u(id) WHERE NOT EXISTS (SELECT 1 FROM fresh f WHERE f.event_id = u.id)),
settled AS MATERIALIZED (
  SELECT e.* FROM wanted w
  CROSS JOIN LATERAL (
    SELECT v.ctid AS tid, v.id, v.route, v.idempotency_key, v.published_by FROM eventhub.events v
    WHERE v.id = w.id AND v.xid < $2
      AND (SELECT 1 FROM eventhub.deliveries d WHERE d.id = v.id) IS NULL
      AND (SELECT 1 FROM eventhub.deliveries m WHERE m.event_id = v.id AND m.subscriber IS NOT NULL LIMIT 1) IS NULL
      AND (SELECT 1 FROM eventhub.fanout f WHERE f.event_id = v.id) IS NULL
      AND (SELECT 1 FROM eventhub.dead_letters l WHERE l.event_id = v.id AND l.retried_at IS NULL LIMIT 1) IS NULL
    LIMIT 1 FOR UPDATE OF v SKIP LOCKED) e),
keys AS (
  UPDATE eventhub.idempotency_keys k SET ended_at = now() FROM settled s JOIN eventhub.routes r ON r.id = s.route
  WHERE s.idempotency_key IS NOT NULL AND k.scope = r.queue || coalesce('/' || s.published_by, '') AND k.key = s.idempotency_key AND k.event_id = s.id),
guarded AS (DELETE FROM eventhub.guards WHERE event_id = ANY (ARRAY (SELECT id FROM settled))),
results AS (DELETE FROM eventhub.handler_results WHERE event_id = ANY (ARRAY (SELECT id FROM settled))),
gone AS (DELETE FROM eventhub.events WHERE ctid = ANY (ARRAY (SELECT tid FROM settled)) RETURNING 1)
SELECT count(*) FROM gone;

-- name: free_keys
-- Of so many keys from before $1, behind the last one that was seen, those may be used again whose event has ended, with
-- nothing that happened to it since $1, or was archived before that. The answer says where to go on.
WITH old AS MATERIALIZED (
  SELECT k.scope, k.key, k.event_id, k.created_at, coalesce(k.ended_at, k.created_at) AS ended
  FROM eventhub.idempotency_keys k
  WHERE k.created_at < $1 AND k.created_at >= $2 AND (k.created_at > $2 OR (k.scope, k.key) > ($3, $4))
  ORDER BY k.created_at, k.scope, k.key LIMIT $5),
free AS MATERIALIZED (
  SELECT o.scope, o.key FROM old o LEFT JOIN eventhub.events e ON e.id = o.event_id
  WHERE CASE WHEN e.id IS NULL THEN o.ended < $1
             ELSE (SELECT 1 FROM eventhub.deliveries d WHERE d.id = e.id AND d.state + 0 <> 4) IS NULL
              AND (SELECT 1 FROM eventhub.deliveries m WHERE m.event_id = e.id AND m.subscriber IS NOT NULL
                     AND m.state + 0 <> 4 LIMIT 1) IS NULL
              AND (SELECT 1 FROM eventhub.fanout f WHERE f.event_id = e.id) IS NULL
              AND (SELECT 1 FROM eventhub.event_log g WHERE g.event_id = e.id AND g.created_at >= $1 LIMIT 1) IS NULL END
  ORDER BY o.scope, o.key),
gone AS (DELETE FROM eventhub.idempotency_keys k USING free f WHERE k.scope = f.scope AND k.key = f.key RETURNING 1)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM old), l.created_at, l.scope, l.key
FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT * FROM old ORDER BY created_at DESC, scope DESC, key DESC LIMIT 1) l ON true;

-- name: prune_log
-- By event, which has an index; the day leaves the other partitions out.
WITH gone AS (
  DELETE FROM eventhub.event_log g USING unnest($1::bigint[], $2::bigint[]) AS w(id, event_id)
  WHERE g.event_id = w.event_id AND g.id = w.id AND g.created_at >= $3 AND g.created_at < $4 AND g.xid < $5
    AND (SELECT 1 FROM eventhub.events e WHERE e.id = w.event_id) IS NULL
  RETURNING 1)
SELECT count(*) FROM gone;

-- name: be_brief
-- Whoever waits for the whole log makes all others wait behind it: rather give up.
SET LOCAL lock_timeout = '250ms';

-- name: drop_log_day
SELECT eventhub.drop_log_day($1, $2, $3);
