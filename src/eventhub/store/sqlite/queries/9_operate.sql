-- name: check
-- The cheapest question that the file itself must answer.
SELECT 1 FROM eventhub_meta LIMIT 1;

-- name: open_count
-- How much is open or to be handed out, as far as it matters: no more than :limit are counted, and each part reads its
-- own index.
SELECT count(*) FROM (
  SELECT 1 FROM eventhub_deliveries INDEXED BY eventhub_deliveries_ready WHERE state = 0
  UNION ALL SELECT 1 FROM eventhub_deliveries INDEXED BY eventhub_deliveries_leased WHERE state = 1
  UNION ALL SELECT 1 FROM eventhub_deliveries INDEXED BY eventhub_deliveries_behind WHERE state = 2
  UNION ALL SELECT 1 FROM eventhub_deliveries INDEXED BY eventhub_deliveries_waiting WHERE state = 3
  UNION ALL SELECT 1 FROM eventhub_fanout
  LIMIT :limit);

-- name: orphans
-- Claims of which nothing was written since before :before, whatever happens to other deliveries of their events; as
-- many are looked at as there are open claims.
WITH held AS MATERIALIZED (
  SELECT h.id, h.event_id, h.worker, h.fence, h.due,
         coalesce((SELECT max(g.created_at) FROM eventhub_event_log g WHERE g.event_id = h.event_id AND g.delivery_id = h.id),
                  (SELECT e.created_at FROM eventhub_events e WHERE e.id = h.event_id)) AS since
  FROM eventhub_deliveries h INDEXED BY eventhub_deliveries_leased
  WHERE h.state = 1 AND h.route IN (SELECT r.id FROM eventhub_routes r WHERE r.queue = :queue AND r.retired = 0))
SELECT s.*, h.worker, h.fence, h.since, h.due
FROM (SELECT * FROM held WHERE since < :before ORDER BY since, id LIMIT :limit) h
CROSS JOIN eventhub_event_states s ON s.id = h.event_id ORDER BY h.since, h.id;

-- name: count_orphans
-- As orphans; no more than :limit are counted.
SELECT count(*) FROM (
  SELECT 1 FROM eventhub_deliveries h INDEXED BY eventhub_deliveries_leased
  WHERE h.state = 1 AND h.route IN (SELECT r.id FROM eventhub_routes r WHERE r.queue = :queue AND r.retired = 0)
    AND coalesce((SELECT max(g.created_at) FROM eventhub_event_log g WHERE g.event_id = h.event_id AND g.delivery_id = h.id),
                 (SELECT e.created_at FROM eventhub_events e WHERE e.id = h.event_id)) < :before
  LIMIT :limit);

-- name: see_workers
-- A time that is older than what is known, as from a clock that was set back, makes nothing older.
INSERT INTO eventhub_workers AS known (queue, name, first_seen, last_seen, last_action) VALUES (?1, ?2, ?4, ?4, ?3)
ON CONFLICT (queue, name) DO UPDATE
SET first_seen = min(known.first_seen, excluded.first_seen),
    last_seen = max(known.last_seen, excluded.last_seen),
    last_action = CASE WHEN excluded.last_seen < known.last_seen THEN known.last_action ELSE excluded.last_action END;

-- name: workers
-- Everyone who was seen in a queue, and everyone who holds something in it now.
SELECT coalesce(w.queue, h.queue), coalesce(w.name, h.name), w.first_seen, w.last_seen, w.last_action,
       coalesce(h.claims, 0), h.lease_ends, :now
FROM (SELECT * FROM eventhub_workers WHERE queue IN (SELECT value FROM json_each(:queues))) w
FULL JOIN (SELECT r.queue, d.worker AS name, count(*) AS claims, min(d.due) AS lease_ends
           FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_leased
           CROSS JOIN eventhub_routes r ON r.id = d.route
           WHERE d.state = 1 AND d.worker IS NOT NULL AND r.queue IN (SELECT value FROM json_each(:queues))
           GROUP BY r.queue, d.worker) h ON h.queue = w.queue AND h.name = w.name
ORDER BY w.last_seen DESC NULLS LAST, 1 LIMIT coalesce(:limit, -1);

-- name: count_workers
SELECT count(*) FROM (
  SELECT queue, name FROM eventhub_workers WHERE queue IN (SELECT value FROM json_each(:queues))
  UNION SELECT r.queue, d.worker FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_leased
  CROSS JOIN eventhub_routes r ON r.id = d.route
  WHERE d.state = 1 AND d.worker IS NOT NULL AND r.queue IN (SELECT value FROM json_each(:queues)));

-- name: queues_of_workers
-- Each queue is looked up behind the one before, so that many workers of one cost nothing.
WITH RECURSIVE q (queue) AS (
  SELECT min(queue) FROM eventhub_workers
  UNION ALL SELECT (SELECT min(w.queue) FROM eventhub_workers w WHERE w.queue > q.queue) FROM q WHERE q.queue IS NOT NULL)
SELECT queue FROM q WHERE queue IS NOT NULL;

-- name: forget_workers
-- Names come from clients, so there is no end of them: who was not seen for long and holds nothing is forgotten.
DELETE FROM eventhub_workers
WHERE last_seen < :before AND name NOT IN (SELECT d.worker FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_leased
                                           WHERE d.state = 1 AND d.worker IS NOT NULL)
RETURNING 1;

-- name: add_key
INSERT INTO eventhub_api_keys (id, name, digest, scopes, created_at, expires_at, revoked_at, last_used_at, rotated_from)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id;

-- name: keys
SELECT id, name, digest, scopes, created_at, expires_at, revoked_at, last_used_at, rotated_from
FROM eventhub_api_keys ORDER BY created_at DESC, id DESC;

-- name: key
SELECT id, name, digest, scopes, created_at, expires_at, revoked_at, last_used_at, rotated_from
FROM eventhub_api_keys WHERE id = :id;

-- name: has_keys
SELECT 1 FROM eventhub_api_keys WHERE revoked_at IS NULL LIMIT 1;

-- name: any_keys
SELECT 1 FROM eventhub_api_keys LIMIT 1;

-- name: revoke_key
-- For good, and once: the first who says so sets the time.
UPDATE eventhub_api_keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING id;

-- name: expire_key
-- A life may be made shorter, never longer.
UPDATE eventhub_api_keys SET expires_at = min(coalesce(expires_at, :at), :at) WHERE id = :id AND revoked_at IS NULL
RETURNING id;

-- name: touch_keys
-- The time of use only moves forward.
UPDATE eventhub_api_keys SET last_used_at = max(coalesce(last_used_at, ?2), ?2) WHERE id = ?1;

-- name: forget_sessions
-- Those that would have ended by themselves by now.
DELETE FROM eventhub_ended_sessions WHERE ends_at < :before;

-- name: end_session
INSERT INTO eventhub_ended_sessions (id, ends_at) VALUES (:id, :ends) ON CONFLICT DO NOTHING;

-- name: ended_sessions
SELECT id FROM eventhub_ended_sessions;
