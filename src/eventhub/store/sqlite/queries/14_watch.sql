-- name: ready_work
-- Work that could be taken, by queue, route after route until :limit are counted; :hub is where messages wait.
SELECT queue, count(*) FROM (
  SELECT r.queue FROM eventhub_routes r
  CROSS JOIN eventhub_deliveries d INDEXED BY eventhub_deliveries_ready ON d.state = 0 AND d.route = r.id
  WHERE r.queue <> :hub AND r.retired = 0 LIMIT :limit)
GROUP BY queue;

-- name: held_work
-- Work behind an ordering key, or that waits for its time.
SELECT r.queue, f.state, count(*) FROM (
  SELECT d.route, d.state FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_held
  WHERE d.state IN (2, 3) AND d.subscriber IS NULL LIMIT :limit) f
CROSS JOIN eventhub_routes r ON r.id = f.route GROUP BY r.queue, f.state;

-- name: open_messages
SELECT f.state, count(*) FROM (
  SELECT d.state FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_pending
  WHERE d.subscriber IS NOT NULL AND d.state <> 1 AND d.state <> 4 LIMIT :limit) f
GROUP BY f.state;

-- name: open_claims
SELECT r.queue, count(*) FROM (
  SELECT d.route FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_leased WHERE d.state = 1 LIMIT :limit) f
CROSS JOIN eventhub_routes r ON r.id = f.route GROUP BY r.queue;

-- name: oldest_ready
-- The first of each route, and of these the oldest by queue.
SELECT f.queue, (:now - e.created_at) / 1e6
FROM (SELECT r.queue, min((SELECT n.event_id FROM eventhub_deliveries n INDEXED BY eventhub_deliveries_ready
                           WHERE n.state = 0 AND n.route = r.id ORDER BY n.event_id LIMIT 1)) AS event_id
      FROM eventhub_routes r WHERE r.retired = 0 GROUP BY r.queue) f
CROSS JOIN eventhub_events e ON e.id = f.event_id;

-- name: activity
-- From the row :first on, which was found by halves.
SELECT :since + (g.created_at - :since) / :step * :step, g.action, count(*)
FROM eventhub_event_log g NOT INDEXED
WHERE g.id >= :first AND g.id < :last AND g.created_at >= :since AND g.created_at < :until GROUP BY 1, 2;

-- name: log_ends
SELECT min(id), max(id) FROM (SELECT min(id) AS id FROM eventhub_event_log UNION ALL SELECT max(id) FROM eventhub_event_log);

-- name: log_from
-- The first row at or behind an id.
SELECT id, created_at FROM eventhub_event_log NOT INDEXED WHERE id >= :id ORDER BY id LIMIT 1;

-- name: newest_log
SELECT f.*, (SELECT e.type FROM eventhub_events e WHERE e.id = f.event_id)
FROM (SELECT g.id, g.event_id, g.delivery_id, g.action, g.worker, g.attempt, g.fence, g.status_code, g.error,
             g.execution_ms, g.created_at, g.subscriber
      FROM eventhub_event_log g NOT INDEXED WHERE g.id > :after ORDER BY g.id DESC LIMIT :limit) f
ORDER BY f.id DESC;

-- name: recent_deaths
-- The latest dead letters, as far as :limit of them are of the last hour.
SELECT count(*), max(iif(l.place = 1, l.delivery_id, NULL)) FROM (
  SELECT d.delivery_id, d.dead_at, row_number() OVER (ORDER BY d.id DESC) AS place FROM (
    SELECT id, delivery_id, dead_at FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_latest
    WHERE retried_at IS NULL ORDER BY id DESC LIMIT :limit) d) l
WHERE l.dead_at > :now - 3600000000;

-- name: troubled_subscribers
SELECT id, name, status, reason, circuit FROM eventhub_subscribers
WHERE circuit = 'open' OR (status = 'disabled' AND reason IS NOT NULL) ORDER BY id LIMIT :limit;

-- name: count_subscribers
SELECT count(*) FROM (SELECT 1 FROM eventhub_subscribers LIMIT :limit);

-- name: silent_claims
-- Of the claims that end first, those of workers that were seen before, but not for long.
SELECT w.name, count(*) FROM (
  SELECT d.worker, d.route FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_leased
  WHERE d.state = 1 ORDER BY d.due LIMIT :limit) h
CROSS JOIN eventhub_routes r ON r.id = h.route AND r.queue = :queue
CROSS JOIN eventhub_workers w ON w.queue = :queue AND w.name = h.worker
WHERE w.last_seen < :before GROUP BY w.name ORDER BY count(*) DESC, w.name;

-- name: seen_lately
SELECT 1 FROM eventhub_workers WHERE queue = :queue AND last_seen > :after LIMIT 1;

-- name: event_ends
SELECT min(id), max(id) FROM (SELECT min(id) AS id FROM eventhub_events UNION ALL SELECT max(id) FROM eventhub_events);

-- name: event_from
-- The first event at or behind an id.
SELECT id, created_at FROM eventhub_events NOT INDEXED WHERE id >= :id ORDER BY id LIMIT 1;

-- name: first_at
-- Ids grow with time, or nearly: it is among the next.
SELECT id FROM eventhub_events NOT INDEXED WHERE id >= :start AND created_at >= :moment ORDER BY id LIMIT 1;

-- name: last_at
SELECT id FROM eventhub_events NOT INDEXED WHERE id < :end AND created_at <= :moment ORDER BY id DESC LIMIT 1;
