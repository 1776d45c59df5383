-- name: dead_page
-- The work that was given up; dead messages are told with the other letters of subscribers.
SELECT l.event_id, l.type, l.payload, l.metadata, l.tags, l.title, l.description, l.ordering_key, l.idempotency_key,
       l.created_at, l.status, l.attempts, l.failures, l.errors, l.dead_at, l.reason, r.queue, l.worker, l.retried_at,
       l.retried_by
FROM eventhub.dead_letters l JOIN eventhub.routes r ON r.id = l.route
WHERE l.retried_at IS NULL AND l.subscriber IS NULL AND ($1::text IS NULL OR r.queue = $1)
ORDER BY l.event_id DESC, l.id DESC LIMIT $2 OFFSET $3;

-- name: dead_total
SELECT count(*) FROM eventhub.dead_letters l
WHERE l.retried_at IS NULL AND l.subscriber IS NULL
  AND ($1::text IS NULL OR l.route IN (SELECT id FROM eventhub.routes WHERE queue = $1));

-- name: dead_event
SELECT l.event_id, l.type, l.payload, l.metadata, l.tags, l.title, l.description, l.ordering_key, l.idempotency_key,
       l.created_at, l.status, l.attempts, l.failures, l.errors, l.dead_at, l.reason, r.queue, l.worker, l.retried_at,
       l.retried_by
FROM eventhub.dead_letters l JOIN eventhub.routes r ON r.id = l.route
WHERE l.event_id = $1 AND l.subscriber IS NULL ORDER BY l.id DESC LIMIT 1;

-- name: dead_standing
-- The open dead letters of these deliveries, locked, with what a fresh start needs: the lane may be gone by now.
SELECT l.id, l.delivery_id, l.lane, coalesce('subscriber:' || l.subscriber, r.queue), coalesce(l.key, l.ordering_key),
       l.subscriber
FROM eventhub.dead_letters l JOIN eventhub.routes r ON r.id = l.route
WHERE l.retried_at IS NULL AND l.delivery_id = ANY ($1::bigint[]) ORDER BY l.delivery_id FOR UPDATE OF l;

-- name: hold_subscribers
-- Those that are still there, and stay until the end of the transaction.
SELECT id FROM eventhub.subscribers WHERE id = ANY ($1::bigint[]) ORDER BY id FOR KEY SHARE;

-- name: close_dead
-- The dead letter stays as history, with who retried it and when.
UPDATE eventhub.dead_letters SET retried_at = coalesce($3, now()), retried_by = $2 WHERE id = ANY ($1::bigint[]);

-- name: revive
-- A fresh start under the old id: counters at zero, but the fence goes on growing. A parked one is still there; the
-- others come back, the first of a key that has no head as its head.
WITH letter AS MATERIALIZED (
  SELECT l.*, row_number() OVER (PARTITION BY l.lane ORDER BY l.delivery_id) AS turn
  FROM eventhub.dead_letters l WHERE l.id = ANY ($1::bigint[])),
unparked AS (
  UPDATE eventhub.deliveries d SET state = 0, attempts = 0, failures = 0, errors = NULL, due = NULL
  WHERE d.id = ANY (ARRAY (SELECT delivery_id FROM letter)) AND d.state + 0 = 4 RETURNING d.id),
back AS (
  INSERT INTO eventhub.deliveries (id, event_id, subscriber, lane, key, route, state, fence, attempts, failures,
                                   max_attempts, parks, handlers)
  SELECT l.delivery_id, l.event_id, l.subscriber, l.lane, l.key, l.route,
         CASE WHEN l.lane IS NULL THEN 0
              WHEN l.turn = 1 AND NOT EXISTS (SELECT 1 FROM eventhub.deliveries h
                                              WHERE h.lane = l.lane AND h.lane IS NOT NULL AND h.state <> 2) THEN 0
              ELSE 2 END,
         l.fence, 0, 0, l.max_attempts, l.parks, l.handlers
  FROM letter l WHERE NOT EXISTS (SELECT 1 FROM eventhub.deliveries d WHERE d.id = l.delivery_id)
  ORDER BY l.delivery_id),
forgotten AS (
  DELETE FROM eventhub.handler_results WHERE event_id = ANY (ARRAY (SELECT delivery_id FROM letter))),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
  SELECT event_id, delivery_id, 'RETRIED', $2, 0, fence, coalesce($3, now()) FROM letter ORDER BY delivery_id)
SELECT delivery_id, route, event_id FROM letter;

-- name: step_back
-- A head that nobody has taken yet lets an older one of its key pass, which came back from the dead.
UPDATE eventhub.deliveries h SET state = 2
WHERE h.lane = ANY ($1::bigint[]) AND h.lane IS NOT NULL AND h.state <> 2 AND h.state + 0 IN (0, 3)
  AND EXISTS (SELECT 1 FROM eventhub.deliveries n WHERE n.lane = h.lane AND n.state = 2 AND n.id < h.id)
RETURNING h.lane;

-- name: old_letters
-- Letters from before $2 behind the number $4: open ones that are not parked, and those that were retried before it, too.
SELECT l.id FROM eventhub.dead_letters l
WHERE l.id > $4 AND CASE $1::text WHEN 'dead_at' THEN l.dead_at ELSE l.created_at END <= $2
  AND (l.retried_at IS NULL OR l.retried_at <= $2)
  AND ($3::text IS NULL OR l.route IN (SELECT id FROM eventhub.routes WHERE queue = $3))
  AND (SELECT 1 FROM eventhub.deliveries d WHERE d.id = l.delivery_id AND d.state + 0 = 4) IS NULL
ORDER BY l.id LIMIT $5;

-- name: hold_letters
-- Of these the ones that may go, locked in the order in which a retry locks them: who retries one, or tells of it, is
-- waited for. Parked ones hold a key and stay. A letter that was retried goes only if it was before $2.
SELECT l.id FROM eventhub.dead_letters l
WHERE l.id = ANY ($1::bigint[]) AND (l.retried_at IS NULL OR l.retried_at <= $2)
  AND (SELECT 1 FROM eventhub.deliveries d WHERE d.id = l.delivery_id AND d.state + 0 = 4) IS NULL
ORDER BY l.delivery_id, l.id FOR UPDATE OF l;

-- name: purge
-- Letters that are held go. A statement of its own: one that waited for a lock does not see what it waited for.
DELETE FROM eventhub.dead_letters WHERE id = ANY ($1::bigint[]) RETURNING event_id, retried_at IS NULL;

-- name: hold_events
-- Two who purge the last letters of one event at once: the second sees that the first has purged its own.
SELECT id FROM eventhub.events WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE;

-- name: delete_events
-- With its last dead letter an event goes, and its key, unless any delivery of it is open or to be made, or has completed.
-- A statement of its own, after the letters: a letter of the same event that was retried meanwhile is an open delivery now.
WITH facts AS (
  DELETE FROM eventhub.events e WHERE e.id = ANY ($1::bigint[])
    AND (SELECT 1 FROM eventhub.deliveries d WHERE d.id = e.id) IS NULL
    AND (SELECT 1 FROM eventhub.deliveries d WHERE d.event_id = e.id AND d.subscriber IS NOT NULL LIMIT 1) IS NULL
    AND (SELECT 1 FROM eventhub.fanout f WHERE f.event_id = e.id) IS NULL
    AND (SELECT 1 FROM eventhub.event_log g WHERE g.event_id = e.id AND g.action = 'COMPLETED' LIMIT 1) IS NULL
    AND (SELECT 1 FROM eventhub.dead_letters l WHERE l.event_id = e.id LIMIT 1) IS NULL
  RETURNING e.route, e.idempotency_key, e.published_by)
DELETE FROM eventhub.idempotency_keys k USING facts f JOIN eventhub.routes r ON r.id = f.route
WHERE f.idempotency_key IS NOT NULL AND k.scope = r.queue || coalesce('/' || f.published_by, '')
  AND k.key = f.idempotency_key;

-- name: unpark
-- Remove the dead head that holds a key; its dead letter stays.
WITH freed AS (
  DELETE FROM eventhub.deliveries WHERE lane = $1 AND lane IS NOT NULL AND state <> 2 AND state = 4
  RETURNING id, event_id),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, created_at)
  SELECT event_id, id, 'SKIPPED', $2, coalesce($3, now()) FROM freed)
SELECT id FROM freed;
