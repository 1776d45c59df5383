-- name: fill_events
INSERT INTO eventhub_events (id, route, type, payload, ordering_key, created_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: fill_log
INSERT INTO eventhub_event_log (event_id, delivery_id, action, worker, attempt, fence, subscriber, error, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: fill_letter
INSERT INTO eventhub_dead_letters (delivery_id, event_id, route, fence, attempts, failures, max_attempts, parks, errors,
                                   reason, status, dead_at, type, payload, ordering_key, created_at)
VALUES (?1, ?1, ?2, 1, 1, 1, 3, 0, '["never"]', 'finalized', 'FAILED', ?3, ?4, ?5, ?6, ?3);

-- name: fill_route
INSERT INTO eventhub_routes (id, queue, tags, priority) VALUES (1, 'work', '', 0);

-- name: fill_subscriber
INSERT INTO eventhub_subscribers (id, name, document, status, created_at, updated_at)
VALUES (?, 'a', ?, 'active', 0, 0);
