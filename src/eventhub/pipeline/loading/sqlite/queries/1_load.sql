-- name: insert_events
INSERT INTO eventhub_events (id, type, payload, metadata, tags, title, description, ordering_key, idempotency_key,
                             created_at, route)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING;

-- name: insert_event_log
INSERT INTO eventhub_event_log (id, event_id, delivery_id, action, worker, attempt, fence, status_code, error,
                                execution_ms, created_at, subscriber)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING;

-- name: intern_route
-- Nothing that is loaded is open, so that new routes of a type are retired from the start.
INSERT INTO eventhub_routes (queue, tags, priority, type, retired, changed_at)
VALUES (:queue, :tags, 0, :type, :type <> '', :now) ON CONFLICT DO NOTHING;

-- name: find_route
SELECT id FROM eventhub_routes WHERE queue = :queue AND tags = :tags AND priority = 0 AND type = :type;

-- name: pass_ids
-- Ids that are given out later are higher than all that were loaded.
UPDATE eventhub_sequence SET next = max(next, :last + 1) WHERE name = 'ids';

-- name: take_ids
UPDATE eventhub_sequence SET next = next + :count WHERE name = 'ids' RETURNING next - :count;

-- name: next_entry
SELECT coalesce(max(id), 0) + 1 FROM eventhub_event_log;

-- name: bury
-- Dead letters of loaded events, put together from the log: the errors since the last fresh start, and who gave it one.
INSERT INTO eventhub_dead_letters (delivery_id, event_id, subscriber, consumer, route, fence, attempts, failures,
                                   max_attempts, worker, parks, errors, reason, status, dead_at, retried_at, retried_by,
                                   type, payload, metadata, tags, title, description, ordering_key, idempotency_key,
                                   created_at)
SELECT d.delivery_id, d.event_id, d.whose, (SELECT s.document FROM eventhub_subscribers s WHERE s.id = d.whose),
       coalesce((SELECT r.id FROM eventhub_routes r
                 WHERE r.queue = :hub AND r.tags = CAST(d.whose AS TEXT) AND r.priority = 0), e.route),
       d.fence, d.attempt,
       (SELECT count(*) FROM eventhub_event_log f
        WHERE f.event_id = d.event_id AND f.delivery_id = d.delivery_id AND f.action IN ('FAILED', 'ABANDONED')
          AND f.id > d.since AND f.id < d.id),
       d.attempt, d.worker, 0,
       (SELECT json_group_array(f.error ORDER BY f.id) FROM eventhub_event_log f
        WHERE f.event_id = d.event_id AND f.delivery_id = d.delivery_id AND f.action IN ('FAILED', 'ABANDONED')
          AND f.id > d.since AND f.id < d.id),
       d.error, 'FAILED', d.created_at, n.created_at, n.worker, e.type, e.payload, e.metadata, e.tags, e.title,
       e.description, e.ordering_key, e.idempotency_key, e.created_at
FROM (SELECT g.*, coalesce((SELECT max(b.id) FROM eventhub_event_log b
                            WHERE b.event_id = g.event_id AND b.delivery_id = g.delivery_id AND b.action = 'RETRIED'
                              AND b.id < g.id), 0) AS since,
             (SELECT min(a.id) FROM eventhub_event_log a
              WHERE a.event_id = g.event_id AND a.delivery_id = g.delivery_id AND a.action = 'RETRIED'
                AND a.id > g.id) AS retried,
             (SELECT max(p.subscriber) FROM eventhub_event_log p
              WHERE p.event_id = g.event_id AND p.delivery_id = g.delivery_id) AS whose
      FROM eventhub_event_log g WHERE g.event_id BETWEEN :first AND :last AND g.action = 'DEAD') d
JOIN eventhub_events e ON e.id = d.event_id
LEFT JOIN eventhub_event_log n ON n.id = d.retried
ORDER BY d.id;

-- name: dead_keys
-- The ordering keys of work that is dead, which a fresh start would have to queue up for.
SELECT DISTINCT r.queue, l.ordering_key FROM eventhub_dead_letters l JOIN eventhub_routes r ON r.id = l.route
WHERE l.event_id BETWEEN :first AND :last AND l.subscriber IS NULL AND l.ordering_key IS NOT NULL;

-- name: set_lane
UPDATE eventhub_dead_letters SET lane = ?1
WHERE event_id BETWEEN ?2 AND ?3 AND subscriber IS NULL AND ordering_key = ?4
  AND route IN (SELECT id FROM eventhub_routes WHERE queue = ?5);
