-- name: dead_page
-- The work that was given up; dead messages are told with the other letters of subscribers.
SELECT l.event_id, l.type, l.payload, l.metadata, l.tags, l.title, l.description, l.ordering_key, l.idempotency_key,
       l.created_at, l.status, l.attempts, l.failures, l.errors, l.dead_at, l.reason, r.queue, l.worker, l.retried_at,
       l.retried_by
FROM eventhub_dead_letters l JOIN eventhub_routes r ON r.id = l.route
WHERE l.retried_at IS NULL AND l.subscriber IS NULL AND (:queue IS NULL OR r.queue = :queue)
ORDER BY l.event_id DESC, l.id DESC LIMIT :limit OFFSET :offset;

-- name: dead_total
SELECT count(*) FROM eventhub_dead_letters l
WHERE l.retried_at IS NULL AND l.subscriber IS NULL
  AND (:queue IS NULL OR l.route IN (SELECT id FROM eventhub_routes WHERE queue = :queue));

-- name: dead_event
SELECT l.event_id, l.type, l.payload, l.metadata, l.tags, l.title, l.description, l.ordering_key, l.idempotency_key,
       l.created_at, l.status, l.attempts, l.failures, l.errors, l.dead_at, l.reason, r.queue, l.worker, l.retried_at,
       l.retried_by
FROM eventhub_dead_letters l JOIN eventhub_routes r ON r.id = l.route
WHERE l.event_id = :event_id AND l.subscriber IS NULL ORDER BY l.id DESC LIMIT 1;

-- name: dead_standing
-- The open dead letters of these deliveries, with what a fresh start needs: the lane may be gone by now. Nobody would
-- ever take what is retried for a subscriber that is gone.
SELECT l.id, l.delivery_id, l.event_id, l.lane, l.fence, coalesce(l.key, l.ordering_key),
       coalesce('subscriber:' || l.subscriber, r.queue)
FROM eventhub_dead_letters l JOIN eventhub_routes r ON r.id = l.route
WHERE l.retried_at IS NULL AND l.delivery_id IN (SELECT value FROM carray(:ids))
  AND (l.subscriber IS NULL OR l.subscriber IN (SELECT s.id FROM eventhub_subscribers s))
ORDER BY l.delivery_id;

-- name: close_dead
-- The dead letter stays as history, with who retried it and when.
UPDATE eventhub_dead_letters SET retried_at = :now, retried_by = :by WHERE id IN (SELECT value FROM carray(:ids));

-- name: revive
-- A fresh start under the old id: counters at zero, but the fence goes on growing.
INSERT INTO eventhub_deliveries (id, event_id, subscriber, lane, key, route, state, fence, attempts, failures,
                                 max_attempts, parks, handlers)
SELECT delivery_id, event_id, subscriber, lane, key, route, ?2, fence, 0, 0, max_attempts, parks, handlers
FROM eventhub_dead_letters WHERE id = ?1;

-- name: revive_parked
UPDATE eventhub_deliveries SET state = 0, attempts = 0, failures = 0, errors = NULL, due = NULL WHERE id = ?1 AND state = 4
RETURNING id;

-- name: step_back
-- A head that nobody has taken yet lets an older one of its key pass, which came back from the dead.
UPDATE eventhub_deliveries SET state = 2
WHERE lane IN (SELECT value FROM carray(:lanes)) AND lane IS NOT NULL AND state <> 2 AND state IN (0, 3)
  AND EXISTS (SELECT 1 FROM eventhub_deliveries n
              WHERE n.lane = eventhub_deliveries.lane AND n.state = 2 AND n.id < eventhub_deliveries.id);

-- name: old_letters
-- Letters from before :before behind the number :after: open ones that are not parked, and those that were retried before
-- it, too.
SELECT l.id FROM eventhub_dead_letters l
WHERE l.id > :after AND CASE :by WHEN 'dead_at' THEN l.dead_at ELSE l.created_at END <= :before
  AND (l.retried_at IS NULL OR l.retried_at <= :before)
  AND (:queue IS NULL OR l.route IN (SELECT id FROM eventhub_routes WHERE queue = :queue))
  AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = l.delivery_id AND d.state = 4)
ORDER BY l.id LIMIT :limit;

-- name: purge
-- Parked ones hold a key and stay, and so does a letter that was retried, unless it was before :before.
DELETE FROM eventhub_dead_letters
WHERE id IN (SELECT value FROM carray(:ids)) AND (retried_at IS NULL OR retried_at <= :before)
  AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = eventhub_dead_letters.delivery_id AND d.state = 4)
RETURNING event_id, retried_at IS NULL;

-- name: delete_events
-- An event goes with its last dead letter, unless any delivery of it is open or to be made, or has completed.
DELETE FROM eventhub_events WHERE id IN (SELECT value FROM carray(:ids))
  AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = eventhub_events.id)
  AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.event_id = eventhub_events.id AND d.subscriber IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM eventhub_fanout f WHERE f.event_id = eventhub_events.id)
  AND NOT EXISTS (SELECT 1 FROM eventhub_event_log g WHERE g.event_id = eventhub_events.id AND g.action = 'COMPLETED')
  AND NOT EXISTS (SELECT 1 FROM eventhub_dead_letters l WHERE l.event_id = eventhub_events.id);

-- name: delete_keys
-- A key whose event is gone may be used again.
DELETE FROM eventhub_idempotency_keys WHERE event_id IN (SELECT value FROM carray(:ids))
  AND NOT EXISTS (SELECT 1 FROM eventhub_events e WHERE e.id = event_id);

-- name: parked
-- The head of the key, if it is parked; said so that the index of heads serves it.
SELECT id, event_id FROM eventhub_deliveries WHERE lane = :lane AND lane IS NOT NULL AND state <> 2 AND state = 4;
