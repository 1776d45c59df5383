-- name: add_route
-- The route of the benchmark's queue; events that our own publisher stored have it already.
INSERT INTO eventhub_routes (queue, tags, priority, type) VALUES ('default', '', 0, ?1) ON CONFLICT DO NOTHING;

-- name: find_route
SELECT id FROM eventhub_routes WHERE queue = 'default' AND tags = '' AND priority = 0 AND type = ?1;

-- name: dead_page
SELECT event_id, type, payload, errors, dead_at FROM eventhub_dead_letters WHERE retried_at IS NULL
ORDER BY event_id DESC, id DESC LIMIT ? OFFSET ?;

-- name: dead_total
SELECT count(*) FROM eventhub_dead_letters WHERE retried_at IS NULL;
