-- name: along_indexes
-- For the next statements of the transaction: rows are read in the order of an index until there are enough of them,
-- whatever the statistics say, which may be of another time.
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;

-- name: by_ranges
-- The same for the log, which has no order but ranges of pages.
SET LOCAL enable_seqscan = off;

-- name: ready_work
-- Work that could be taken, by queue, route after route until $1 are counted; $2 is where messages wait.
SELECT f.queue, count(*) FROM (
  SELECT r.queue FROM eventhub.routes r
  CROSS JOIN LATERAL (SELECT 1 FROM eventhub.deliveries d WHERE d.state = 0 AND d.route = r.id
                      ORDER BY d.event_id LIMIT $1) d
  WHERE r.queue <> $2 AND NOT r.retired LIMIT $1) f
GROUP BY f.queue;

-- name: held_work
-- Work behind an ordering key, or that waits for its time.
SELECT r.queue, f.state, count(*) FROM (
  SELECT d.route, d.state FROM eventhub.deliveries d WHERE d.state IN (2, 3) AND d.subscriber IS NULL
  ORDER BY d.route, d.event_id LIMIT $1) f
JOIN eventhub.routes r ON r.id = f.route GROUP BY r.queue, f.state;

-- name: open_messages
SELECT f.state, count(*) FROM (
  SELECT d.state FROM eventhub.deliveries d WHERE d.subscriber IS NOT NULL AND d.state <> 1 AND d.state <> 4
  ORDER BY d.subscriber, d.state, d.id LIMIT $1) f
GROUP BY f.state;

-- name: open_claims
SELECT r.queue, count(*) FROM (
  SELECT d.route FROM eventhub.deliveries d WHERE d.state = 1 ORDER BY d.due LIMIT $1) f
JOIN eventhub.routes r ON r.id = f.route GROUP BY r.queue;

-- name: oldest_ready
-- The first of each route, and of these the oldest by queue.
SELECT f.queue, extract(epoch FROM coalesce($1, now()) - e.created_at)::float8
FROM (SELECT r.queue, min(d.event_id) AS event_id FROM eventhub.routes r
      CROSS JOIN LATERAL (SELECT n.event_id FROM eventhub.deliveries n WHERE n.state = 0 AND n.route = r.id
                          ORDER BY n.event_id LIMIT 1) d
      WHERE NOT r.retired GROUP BY r.queue) f
CROSS JOIN LATERAL (SELECT v.created_at FROM eventhub.events v WHERE v.id = f.event_id OFFSET 0) e;

-- name: activity
SELECT date_bin($3::interval, g.created_at, $1::timestamptz), g.action, count(*) FROM eventhub.event_log g
WHERE g.created_at >= $1 AND g.created_at < $2 GROUP BY 1, 2;

-- name: latest_log
-- The newest rows of the last $2, and the position for the next look.
SELECT p.position, 0, f.id, f.event_id, f.delivery_id, f.action, f.worker, f.attempt, f.fence, f.status_code, f.error,
       f.execution_ms, f.created_at, f.subscriber, e.type
FROM (SELECT pg_current_snapshot()::text AS position) p
LEFT JOIN (SELECT g.* FROM eventhub.event_log g WHERE g.created_at >= now() - $2::interval
           ORDER BY g.id DESC LIMIT $1) f ON true
LEFT JOIN LATERAL (SELECT v.type FROM eventhub.events v WHERE v.id = f.event_id OFFSET 0) e ON true
ORDER BY f.id DESC;

-- name: newest_log
-- Rows that were not to be seen at the position $2, newest first, each with how many there are. A position is which
-- transactions we saw: those that are under way now are news later, whenever they began. Whatever was written longer ago
-- than $3 is not looked for: an old transaction must not make us look through everything since it began.
SELECT p.position, f.total, f.id, f.event_id, f.delivery_id, f.action, f.worker, f.attempt, f.fence, f.status_code,
       f.error, f.execution_ms, f.created_at, f.subscriber, e.type
FROM (SELECT pg_current_snapshot()::text AS position) p
LEFT JOIN (SELECT g.*, count(*) OVER () AS total FROM eventhub.event_log g
           WHERE g.xid >= $4 AND g.created_at >= now() - $3::interval
             AND NOT pg_visible_in_snapshot(g.xid::text::xid8, $2::text::pg_snapshot)
           ORDER BY g.id DESC LIMIT $1) f ON true
LEFT JOIN LATERAL (SELECT v.type FROM eventhub.events v WHERE v.id = f.event_id OFFSET 0) e ON true
ORDER BY f.id DESC;

-- name: recent_deaths
-- The latest dead letters, as far as $1 of them are of the last hour.
SELECT count(*), max(l.delivery_id) FILTER (WHERE l.place = 1) FROM (
  SELECT d.delivery_id, d.dead_at, row_number() OVER (ORDER BY d.id DESC) AS place FROM (
    SELECT id, delivery_id, dead_at FROM eventhub.dead_letters WHERE retried_at IS NULL ORDER BY id DESC LIMIT $1) d) l
WHERE l.dead_at > coalesce($2, now()) - interval '1 hour';

-- name: troubled_subscribers
SELECT id, name, status, reason, circuit FROM eventhub.subscribers
WHERE circuit = 'open' OR (status = 'disabled' AND reason IS NOT NULL) ORDER BY id LIMIT $1;

-- name: count_subscribers
SELECT count(*) FROM (SELECT 1 FROM eventhub.subscribers LIMIT $1) s;

-- name: silent_claims
-- Of the claims that end first, those of workers that were seen before, but not for long.
WITH held AS MATERIALIZED (
  SELECT d.worker FROM eventhub.deliveries d
  WHERE d.state = 1 AND d.route = ANY (ARRAY (SELECT r.id FROM eventhub.routes r WHERE r.queue = $1))
  ORDER BY d.due LIMIT $4)
SELECT w.name, count(*) FROM held h
CROSS JOIN LATERAL (SELECT * FROM eventhub.workers v WHERE v.queue = $1 AND v.name = h.worker OFFSET 0) w
WHERE w.last_seen < coalesce($3, now()) - $2::interval GROUP BY w.name ORDER BY count(*) DESC, w.name;

-- name: seen_lately
SELECT 1 FROM eventhub.workers WHERE queue = $1 AND last_seen > coalesce($3, now()) - $2::interval LIMIT 1;

-- name: first_event_since
SELECT eventhub.first_event_since($1);

-- name: first_at
-- Ids grow with time, or nearly: it is among the next.
SELECT id FROM eventhub.events WHERE id >= $1 AND created_at >= $2 ORDER BY id LIMIT 1;

-- name: last_at
SELECT id FROM eventhub.events WHERE id < $1 AND created_at <= $2 ORDER BY id DESC LIMIT 1;
