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

-- name: claim
-- The best shape that was found by hand: lock and remember where the rows are, update them there, log, return payloads.
WITH pick AS MATERIALIZED (
  SELECT ctid AS tid FROM eventhub.deliveries WHERE state = 0 AND route = $1 AND event_id >= $4
  ORDER BY event_id LIMIT $2 FOR UPDATE SKIP LOCKED),
taken AS (
  UPDATE eventhub.deliveries SET state = 1, fence = fence + 1, attempts = attempts + 1, worker = $3,
         due = now() + interval '1 minute'
  WHERE ctid = ANY (ARRAY (SELECT tid FROM pick)) RETURNING id, event_id, fence, attempts),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
  SELECT event_id, id, 'PICKED', $3, attempts, fence, now() FROM taken)
SELECT t.id, t.fence, e.type, e.payload, e.created_at
FROM taken t JOIN eventhub.events e ON e.id = t.event_id ORDER BY t.id;

-- name: complete
-- Each claim by its id and fence leaves the hot table and is logged.
WITH hit AS MATERIALIZED (
  SELECT d.tid FROM unnest($1::bigint[], $2::integer[]) AS r(id, fence)
  CROSS JOIN LATERAL (SELECT ctid AS tid FROM eventhub.deliveries WHERE id = r.id AND fence = r.fence
                      LIMIT 1 FOR UPDATE) d),
gone AS (
  DELETE FROM eventhub.deliveries WHERE ctid = ANY (ARRAY (SELECT tid FROM hit))
  RETURNING id, event_id, worker, attempts, fence),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
  SELECT event_id, id, 'COMPLETED', worker, attempts, fence, now() FROM gone)
SELECT id FROM gone;

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
