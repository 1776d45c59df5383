-- name: add_route
-- The route of the benchmark's queue; events that our own publisher stored have it already.
INSERT INTO eventhub.routes (queue, tags, priority, type) VALUES ('default', '', 0, $1) ON CONFLICT DO NOTHING;

-- name: find_route
SELECT id FROM eventhub.routes WHERE queue = 'default' AND tags = '' AND priority = 0 AND type = $1;

-- name: hold_begin
BEGIN ISOLATION LEVEL REPEATABLE READ;

-- name: hold_look
-- The snapshot is taken by the first statement, not by BEGIN.
SELECT count(*) FROM eventhub.routes;

-- name: dead_page
SELECT event_id, type, payload, errors, dead_at FROM eventhub.dead_letters WHERE retried_at IS NULL
ORDER BY event_id DESC, id DESC LIMIT $1 OFFSET $2;

-- name: dead_total
SELECT count(*) FROM eventhub.dead_letters WHERE retried_at IS NULL;
