-- name: stage_events
-- Rows are copied to here first, so that those that are there already can be left out. The types are those of the tables,
-- but that a payload is text until it is stored.
CREATE TEMPORARY TABLE loading_events AS SELECT id, route, type, payload::text, metadata, tags, title, description,
  ordering_key, idempotency_key, created_at FROM eventhub.events LIMIT 0;

-- name: stage_event_log
CREATE TEMPORARY TABLE loading_event_log AS SELECT id, event_id, delivery_id, action, worker, attempt, fence, status_code,
  error, execution_ms, created_at, subscriber FROM eventhub.event_log LIMIT 0;

-- name: stage_routes
CREATE TEMPORARY TABLE loading_routes (place bigint, queue text, tags text, type text);

-- name: analyze_events
ANALYZE pg_temp.loading_events;

-- name: analyze_event_log
-- How many there are decides how those that are there are looked for.
ANALYZE pg_temp.loading_event_log;

-- name: alone
-- Two that load the same would not see each other's rows.
SELECT pg_advisory_xact_lock(hashtext('eventhub.loading'));

-- name: insert_events
-- Position 0 is below every range that is ever copied.
INSERT INTO eventhub.events (id, route, type, payload, metadata, tags, title, description, ordering_key, idempotency_key,
                             created_at, xid)
SELECT id, route, type, payload::json, metadata, tags, title, description, ordering_key, idempotency_key, created_at,
       CASE WHEN {copied} THEN 0 ELSE pg_current_xact_id()::text::bigint END
FROM pg_temp.loading_events ORDER BY id ON CONFLICT (id) DO NOTHING;

-- name: insert_event_log
-- The log has no key of its own: an entry is looked for by its event, in its day.
INSERT INTO eventhub.event_log (id, event_id, delivery_id, action, worker, attempt, fence, status_code, error, execution_ms,
                                created_at, subscriber, xid) OVERRIDING SYSTEM VALUE
SELECT id, event_id, delivery_id, action, worker, attempt, fence, status_code, error, execution_ms, created_at, subscriber,
       CASE WHEN {copied} THEN 0 ELSE pg_current_xact_id()::text::bigint END
FROM (SELECT DISTINCT ON (id) * FROM pg_temp.loading_event_log ORDER BY id) s
WHERE NOT EXISTS (SELECT 1 FROM eventhub.event_log l
                  WHERE l.event_id = s.event_id AND l.id = s.id AND l.created_at = s.created_at);

-- name: empty_events
TRUNCATE pg_temp.loading_events;

-- name: empty_event_log
TRUNCATE pg_temp.loading_event_log;

-- name: make_days
SELECT eventhub.make_log_days('{first}'::date, 1);

-- name: intern_routes
-- As the hub itself does it: one at a time, so that changes are committed in the order of their numbers. Nothing that is
-- loaded is open, so that new routes of a type are retired from the start.
WITH alone AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtext('eventhub.routes')))
INSERT INTO eventhub.routes (queue, tags, priority, type, retired)
SELECT w.queue, w.tags, 0, w.type, w.type <> '' FROM alone, pg_temp.loading_routes w ORDER BY w.place ON CONFLICT DO NOTHING;

-- name: find_routes
SELECT w.place, r.id FROM pg_temp.loading_routes w
JOIN eventhub.routes r ON r.queue = w.queue AND r.tags = w.tags AND r.priority = 0 AND r.type = w.type;

-- name: empty_routes
TRUNCATE pg_temp.loading_routes;

-- name: hold_ids
-- Changes nothing, but nobody takes an id until the transaction has ended: a sequence must never go back.
ALTER SEQUENCE eventhub.ids CACHE 1;

-- name: hold_entries
ALTER SEQUENCE eventhub.event_log_id_seq CACHE 1;

-- name: next_id
SELECT last_value + is_called::integer FROM eventhub.ids;

-- name: next_entry
SELECT last_value + is_called::integer FROM eventhub.event_log_id_seq;

-- name: set_ids
SELECT setval('eventhub.ids', {last});

-- name: set_entries
SELECT setval('eventhub.event_log_id_seq', {last});

-- name: stage_lanes
CREATE TEMPORARY TABLE loading_lanes (lane bigint, queue text, key text);

-- name: bury
-- Dead letters of loaded events, put together from the log: the errors since the last fresh start, and who gave it one.
INSERT INTO eventhub.dead_letters (delivery_id, event_id, subscriber, consumer, route, fence, attempts, failures,
                                   max_attempts, worker, parks, errors, reason, status, dead_at, retried_at, retried_by,
                                   type, payload, metadata, tags, title, description, ordering_key, idempotency_key,
                                   created_at)
SELECT d.delivery_id, d.event_id, t.whose, (SELECT s.document FROM eventhub.subscribers s WHERE s.id = t.whose),
       coalesce((SELECT r.id FROM eventhub.routes r
                 WHERE r.queue = '{hub}' AND r.tags = t.whose::text AND r.priority = 0), e.route),
       d.fence, d.attempt, f.failures, d.attempt, d.worker, false, f.errors, d.error, 'FAILED', d.created_at, n.created_at,
       n.worker, e.type, e.payload, e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key,
       e.created_at
FROM eventhub.event_log d
JOIN eventhub.events e ON e.id = d.event_id
CROSS JOIN LATERAL (SELECT max(p.subscriber) AS whose,
                           coalesce(max(p.id) FILTER (WHERE p.action = 'RETRIED' AND p.id < d.id), 0) AS since,
                           min(p.id) FILTER (WHERE p.action = 'RETRIED' AND p.id > d.id) AS retried
                    FROM eventhub.event_log p WHERE p.event_id = d.event_id AND p.delivery_id = d.delivery_id) t
CROSS JOIN LATERAL (SELECT count(*) AS failures, jsonb_agg(p.error ORDER BY p.id) AS errors
                    FROM eventhub.event_log p
                    WHERE p.event_id = d.event_id AND p.delivery_id = d.delivery_id
                      AND p.action IN ('FAILED', 'ABANDONED') AND p.id > t.since AND p.id < d.id) f
LEFT JOIN LATERAL (SELECT p.created_at, p.worker FROM eventhub.event_log p
                   WHERE p.event_id = d.event_id AND p.id = t.retried) n ON true
WHERE d.event_id BETWEEN {first} AND {last} AND d.action = 'DEAD' ORDER BY d.id;

-- name: dead_keys
-- The ordering keys of work that is dead, which a fresh start would have to queue up for.
SELECT DISTINCT r.queue, l.ordering_key FROM eventhub.dead_letters l JOIN eventhub.routes r ON r.id = l.route
WHERE l.event_id BETWEEN {first} AND {last} AND l.subscriber IS NULL AND l.ordering_key IS NOT NULL;

-- name: set_lanes
UPDATE eventhub.dead_letters l SET lane = w.lane
FROM pg_temp.loading_lanes w JOIN eventhub.routes r ON r.queue = w.queue
WHERE l.event_id BETWEEN {first} AND {last} AND l.subscriber IS NULL AND l.ordering_key = w.key AND l.route = r.id;

-- name: empty_lanes
TRUNCATE pg_temp.loading_lanes;
