-- name: add_route
-- The route of the benchmark's queue; events that our own publisher stored have it already.
INSERT INTO eventhub_routes (queue, tags, priority) VALUES ('default', '', 0) ON CONFLICT DO NOTHING;

-- name: find_route
SELECT id FROM eventhub_routes WHERE queue = 'default' AND tags = '' AND priority = 0;

-- name: take_ids
UPDATE eventhub_sequence SET next = next + ?1 WHERE name = 'ids' RETURNING next - ?1;

-- name: insert_event
INSERT INTO eventhub_events (id, route, type, payload, created_at) VALUES (?, ?, ?, ?, ?);

-- name: insert_delivery
INSERT INTO eventhub_deliveries (id, event_id, route, state, fence, attempts, failures) VALUES (?1, ?1, ?2, 0, 0, 0, 0);

-- name: log_published
INSERT INTO eventhub_event_log (event_id, delivery_id, action, created_at)
SELECT id, id, 'PUBLISHED', created_at FROM eventhub_events WHERE id BETWEEN ? AND ?;

-- name: claim
SELECT d.id, d.fence, e.type, e.payload, e.created_at
FROM eventhub_deliveries d JOIN eventhub_events e ON e.id = d.event_id
WHERE d.state = 0 AND d.route = ? ORDER BY d.event_id LIMIT ?;

-- name: lease
UPDATE eventhub_deliveries SET state = 1, fence = fence + 1, attempts = attempts + 1, worker = ?, due = ?
WHERE state = 0 AND id IN (SELECT value FROM carray(?));

-- name: log_picked
INSERT INTO eventhub_event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
SELECT event_id, id, 'PICKED', worker, attempts, fence, ? FROM eventhub_deliveries
WHERE id IN (SELECT value FROM carray(?)) ORDER BY event_id;

-- name: log_completed
INSERT INTO eventhub_event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
SELECT event_id, id, 'COMPLETED', worker, attempts, fence, ? FROM eventhub_deliveries
WHERE id IN (SELECT value FROM carray(?)) ORDER BY event_id;

-- name: remove
DELETE FROM eventhub_deliveries WHERE id IN (SELECT value FROM carray(?));

-- name: dead_page
SELECT event_id, type, payload, errors, dead_at FROM eventhub_dead_letters WHERE retried_at IS NULL
ORDER BY event_id DESC, id DESC LIMIT ? OFFSET ?;

-- name: dead_total
SELECT count(*) FROM eventhub_dead_letters WHERE retried_at IS NULL;
