-- name: insert_events
INSERT INTO eventhub_events (id, type, payload, metadata, tags, title, description, ordering_key, idempotency_key,
                             created_at, route)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING;

-- name: insert_event_log
INSERT INTO eventhub_event_log (id, event_id, delivery_id, action, worker, attempt, fence, status_code, error,
                                execution_ms, created_at, subscriber)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING;

-- name: intern_route
INSERT INTO eventhub_routes (queue, tags, priority) VALUES (:queue, :tags, 0) ON CONFLICT DO NOTHING;

-- name: find_route
SELECT id FROM eventhub_routes WHERE queue = :queue AND tags = :tags AND priority = 0;

-- name: pass_ids
-- Ids that are given out later are higher than all that were loaded.
UPDATE eventhub_sequence SET next = max(next, :last + 1) WHERE name = 'ids';
