-- name: add_route
-- The route of the benchmark's queue; events that our own publisher stored have it already.
INSERT INTO eventhub.routes (queue, tags, priority) VALUES ('default', '', 0) ON CONFLICT DO NOTHING;

-- name: find_route
SELECT id FROM eventhub.routes WHERE queue = 'default' AND tags = '' AND priority = 0;

-- name: publish
-- Event, delivery and log row of each payload, in one statement and one commit.
WITH input AS MATERIALIZED (SELECT nextval('eventhub.ids') AS id, payload FROM unnest($3::text[]) AS payload),
stored AS (
  INSERT INTO eventhub.events (id, route, type, payload, created_at)
  SELECT id, $1, $2, payload::json, now() FROM input),
placed AS (
  INSERT INTO eventhub.deliveries (id, event_id, route, state, fence, attempts, failures)
  SELECT id, id, $1, 0, 0, 0, 0 FROM input),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, created_at)
  SELECT id, id, 'PUBLISHED', now() FROM input)
SELECT id FROM input;

-- name: notify
SELECT pg_notify($1, '');

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
