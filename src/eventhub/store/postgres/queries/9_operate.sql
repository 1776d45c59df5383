-- name: check
-- The cheapest question there is: whether the database answers at all.
SELECT 1;

-- name: clock
SELECT now();

-- name: open_count
-- How much is open or to be handed out, as far as it matters: no more than $1 are counted, the newest first.
SELECT least($1, (SELECT count(*) FROM (SELECT 1 FROM eventhub.deliveries WHERE state + 0 <> 4 ORDER BY id DESC LIMIT $1) o)
                 + (SELECT count(*) FROM (SELECT 1 FROM eventhub.fanout LIMIT $1) m));

-- name: orphans
-- Claims of which nothing was written for longer than $2, whatever happens to other deliveries of their events; as many
-- are looked at as there are open claims.
WITH leased AS MATERIALIZED (
  SELECT d.id, d.event_id, d.worker, d.fence, d.due FROM eventhub.deliveries d
  WHERE d.state = 1 AND d.route = ANY (ARRAY (SELECT r.id FROM eventhub.routes r WHERE r.queue = $1 AND NOT r.retired)) ORDER BY d.due),
silent AS MATERIALIZED (
  SELECT h.*, g.since FROM leased h
  CROSS JOIN LATERAL (
    SELECT coalesce((SELECT max(n.created_at) FROM eventhub.event_log n
                     WHERE n.event_id = h.event_id AND n.delivery_id = h.id),
                    (SELECT e.created_at FROM eventhub.events e WHERE e.id = h.event_id)) AS since OFFSET 0) g
  WHERE g.since < coalesce($4, now()) - $2::interval ORDER BY g.since, h.id LIMIT $3)
SELECT s.*, h.worker, h.fence, h.since, h.due FROM silent h
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = h.event_id OFFSET 0) s
ORDER BY h.since, h.id;

-- name: count_orphans
-- As orphans; no more than $3 are counted.
WITH leased AS MATERIALIZED (
  SELECT d.id, d.event_id FROM eventhub.deliveries d
  WHERE d.state = 1 AND d.route = ANY (ARRAY (SELECT r.id FROM eventhub.routes r WHERE r.queue = $1 AND NOT r.retired)) ORDER BY d.due)
SELECT count(*) FROM (
  SELECT 1 FROM leased h
  CROSS JOIN LATERAL (
    SELECT coalesce((SELECT max(n.created_at) FROM eventhub.event_log n
                     WHERE n.event_id = h.event_id AND n.delivery_id = h.id),
                    (SELECT e.created_at FROM eventhub.events e WHERE e.id = h.event_id)) AS since OFFSET 0) g
  WHERE g.since < coalesce($4, now()) - $2::interval LIMIT $3) o;

-- name: see_workers
-- In the order of their names, so that two who write cannot wait in a circle. Whoever waited brings an older time, and
-- what is known is never made older by it.
INSERT INTO eventhub.workers AS known (queue, name, first_seen, last_seen, last_action)
SELECT s.queue, s.name, coalesce($4, now()), coalesce($4, now()), s.action
FROM unnest($1::text[], $2::text[], $3::text[]) AS s(queue, name, action) ORDER BY s.queue, s.name
ON CONFLICT (queue, name) DO UPDATE
SET first_seen = least(known.first_seen, excluded.first_seen),
    last_seen = greatest(known.last_seen, excluded.last_seen),
    last_action = CASE WHEN excluded.last_seen < known.last_seen THEN known.last_action ELSE excluded.last_action END;

-- name: workers
-- Everyone who was seen in a queue, and everyone who holds something in it now.
SELECT coalesce(w.queue, h.queue), coalesce(w.name, h.name), w.first_seen, w.last_seen, w.last_action,
       coalesce(h.claims, 0), h.lease_ends, coalesce($2, now())
FROM (SELECT * FROM eventhub.workers WHERE queue = ANY ($1::text[])) w
FULL JOIN (SELECT r.queue, d.name, sum(d.claims)::bigint AS claims, min(d.lease_ends) AS lease_ends
           FROM (SELECT l.route, l.worker AS name, count(*) AS claims, min(l.due) AS lease_ends FROM eventhub.deliveries l
                 WHERE l.state = 1 AND l.worker IS NOT NULL
                   AND l.route = ANY (ARRAY (SELECT r.id FROM eventhub.routes r WHERE r.queue = ANY ($1::text[])))
                 GROUP BY l.route, l.worker) d
           JOIN eventhub.routes r ON r.id = d.route GROUP BY r.queue, d.name) h ON h.queue = w.queue AND h.name = w.name
ORDER BY w.last_seen DESC NULLS LAST, 1 LIMIT $3;

-- name: count_workers
SELECT count(*) FROM (
  SELECT queue, name FROM eventhub.workers WHERE queue = ANY ($1::text[])
  UNION SELECT r.queue, d.worker
  FROM (SELECT DISTINCT l.route, l.worker FROM eventhub.deliveries l
        WHERE l.state = 1 AND l.worker IS NOT NULL
          AND l.route = ANY (ARRAY (SELECT r.id FROM eventhub.routes r WHERE r.queue = ANY ($1::text[])))) d
  JOIN eventhub.routes r ON r.id = d.route) w;

-- name: queues_of_workers
-- Each queue is looked up behind the one before, so that many workers of one cost nothing.
WITH RECURSIVE q AS (
  SELECT min(queue) AS queue FROM eventhub.workers
  UNION ALL SELECT (SELECT min(w.queue) FROM eventhub.workers w WHERE w.queue > q.queue) FROM q WHERE q.queue IS NOT NULL)
SELECT queue FROM q WHERE queue IS NOT NULL;

-- name: forget_workers
-- Names come from clients, so there is no end of them: who was not seen for long and holds nothing is forgotten.
DELETE FROM eventhub.workers
WHERE last_seen < coalesce($2, now()) - $1::interval
  AND name NOT IN (SELECT d.worker FROM eventhub.deliveries d WHERE d.state = 1 AND d.worker IS NOT NULL)
RETURNING 1;

-- name: add_key
INSERT INTO eventhub.api_keys (id, name, digest, scopes, created_at, expires_at, revoked_at, last_used_at, rotated_from)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING id;

-- name: keys
SELECT id, name, digest, scopes, created_at, expires_at, revoked_at, last_used_at, rotated_from
FROM eventhub.api_keys ORDER BY created_at DESC, id DESC;

-- name: key
SELECT id, name, digest, scopes, created_at, expires_at, revoked_at, last_used_at, rotated_from
FROM eventhub.api_keys WHERE id = $1;

-- name: has_keys
SELECT 1 FROM eventhub.api_keys WHERE revoked_at IS NULL LIMIT 1;

-- name: any_keys
SELECT 1 FROM eventhub.api_keys LIMIT 1;

-- name: revoke_key
-- For good, and once: the first who says so sets the time.
UPDATE eventhub.api_keys SET revoked_at = coalesce($2, now()) WHERE id = $1 AND revoked_at IS NULL RETURNING id;

-- name: expire_key
-- A life may be made shorter, never longer.
UPDATE eventhub.api_keys SET expires_at = least(expires_at, $2) WHERE id = $1 AND revoked_at IS NULL RETURNING id;

-- name: touch_keys
-- Locked in order, so that two who write cannot wait in a circle; the time of use only moves forward.
UPDATE eventhub.api_keys k SET last_used_at = greatest(k.last_used_at, h.used)
FROM (SELECT a.id, u.used FROM unnest($1::text[], $2::timestamptz[]) AS u(id, used)
      JOIN eventhub.api_keys a ON a.id = u.id ORDER BY a.id FOR UPDATE OF a) h
WHERE k.id = h.id;

-- name: forget_sessions
-- Those that would have ended by themselves by now.
DELETE FROM eventhub.ended_sessions WHERE ends_at < $1;

-- name: end_session
INSERT INTO eventhub.ended_sessions (id, ends_at) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: ended_sessions
SELECT id FROM eventhub.ended_sessions;
