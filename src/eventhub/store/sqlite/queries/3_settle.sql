-- name: standing
-- How deliveries stand; under the write lock this is the guard of everything that follows.
SELECT id, event_id, fence, state, lane, worker, attempts, max_attempts, due, parks FROM eventhub_deliveries
WHERE id IN (SELECT value FROM carray(:ids));

-- name: current
-- How deliveries stand, for those who ask.
SELECT d.id, d.event_id, d.fence, d.state, d.lane, d.worker, d.attempts, d.max_attempts, d.due, d.failures,
       (SELECT r.queue FROM eventhub_routes r WHERE r.id = d.route), d.claimed_by
FROM eventhub_deliveries d WHERE d.id IN (SELECT value FROM carray(:ids));

-- name: count_current
-- How many claims of work without a key are current, by id and fence: the guard of a whole batch in one row. The pluses
-- keep the rows looked up by id.
WITH claim AS MATERIALIZED (SELECT rowid AS n, value AS id FROM carray(:ids)),
     fence AS MATERIALIZED (SELECT rowid AS n, value FROM carray(:fences))
SELECT count(*) FROM claim c JOIN fence f ON f.n = c.n CROSS JOIN eventhub_deliveries d ON d.id = c.id
WHERE d.fence = f.value AND +d.state = 1 AND +d.lane IS NULL;

-- name: log_completed
-- For claims that were found to be current. A handler's time of -1 was not taken.
WITH claim AS MATERIALIZED (SELECT rowid AS n, value AS id FROM carray(:ids)),
     took AS MATERIALIZED (SELECT rowid AS n, value AS milliseconds FROM carray(:took))
INSERT INTO eventhub_event_log (event_id, delivery_id, action, worker, attempt, fence, execution_ms, created_at)
SELECT d.event_id, d.id, 'COMPLETED', d.worker, d.attempts, d.fence, nullif(t.milliseconds, -1), :now
FROM claim c JOIN took t ON t.n = c.n CROSS JOIN eventhub_deliveries d ON d.id = c.id ORDER BY c.n;

-- name: remove
-- Settled work leaves the hot table.
DELETE FROM eventhub_deliveries WHERE id IN (SELECT value FROM carray(:ids));

-- name: drop_results
-- Handlers' results matter only while the work on their event is open; a message has none.
DELETE FROM eventhub_handler_results WHERE event_id IN (SELECT value FROM carray(:ids));

-- name: write_log
INSERT INTO eventhub_event_log (event_id, delivery_id, action, worker, attempt, fence, status_code, error, execution_ms,
                       created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: fail
-- A failed attempt: counted, its error kept (the last hundred of them), and due again at ?3 or at once, perhaps on
-- another route.
UPDATE eventhub_deliveries SET state = CASE WHEN ?3 IS NULL THEN 0 ELSE 3 END, due = ?3, failures = failures + 1, worker = NULL,
       route = coalesce(?5, route),
       errors = json_insert(CASE WHEN json_array_length(errors) >= 100 THEN json_remove(errors, '$[0]')
                                 ELSE coalesce(errors, '[]') END, '$[#]', ?4)
WHERE id = ?1 AND fence = ?2 AND state = 1;

-- name: tell_attempt
-- How an attempt at a message went, in full; whose it was is in its row.
INSERT INTO eventhub_attempts (delivery_id, fence, event_id, subscriber, action, created_at, detail, key)
SELECT ?1, ?2, ?3, d.subscriber, ?4, ?5, ?6, d.key FROM eventhub_deliveries d WHERE d.id = ?1 AND d.subscriber IS NOT NULL;

-- name: release
-- Neither success nor failure: the attempt is not charged, the fence stays where it is.
UPDATE eventhub_deliveries SET state = CASE WHEN ?3 IS NULL THEN 0 ELSE 3 END, due = ?3, attempts = attempts - 1, worker = NULL
WHERE id = ?1 AND fence = ?2 AND state = 1;

-- name: add_error
-- The error of the attempt that ends a delivery, before the dead letter is written.
UPDATE eventhub_deliveries SET failures = failures + (state = 1),
       errors = json_insert(CASE WHEN json_array_length(errors) >= 100 THEN json_remove(errors, '$[0]')
                                 ELSE coalesce(errors, '[]') END, '$[#]', ?2)
WHERE id = ?1;

-- name: bury
-- The dead letter keeps everything: the event and its subscriber as they were, every error, who had it last, and the
-- fence to go on from.
INSERT INTO eventhub_dead_letters (delivery_id, event_id, subscriber, consumer, announced, lane, key, route, fence,
                                   attempts, failures, max_attempts, worker, parks, errors, reason, status, dead_at, type,
                                   payload, metadata, tags, title, description, ordering_key, idempotency_key, created_at,
                                   handlers)
SELECT d.id, d.event_id, d.subscriber, (SELECT s.document FROM eventhub_subscribers s WHERE s.id = d.subscriber),
       d.subscriber IS NULL, d.lane, d.key, d.route, d.fence, d.attempts, d.failures, d.max_attempts, d.worker, d.parks,
       d.errors, ?2, ?3, ?4, e.type, e.payload, e.metadata, e.tags, e.title, e.description, e.ordering_key,
       e.idempotency_key, e.created_at, d.handlers
FROM eventhub_deliveries d JOIN eventhub_events e ON e.id = d.event_id WHERE d.id = ?1;

-- name: park
UPDATE eventhub_deliveries SET state = 4, worker = NULL, due = NULL WHERE id IN (SELECT value FROM carray(:ids));

-- name: advance
-- The next of a key steps forward, unless the key still has a head.
UPDATE eventhub_deliveries SET state = CASE WHEN due > :now THEN 3 ELSE 0 END, due = CASE WHEN due > :now THEN due END
WHERE id IN (SELECT (SELECT min(n.id) FROM eventhub_deliveries n WHERE n.lane = l.value AND n.state = 2)
             FROM carray(:lanes) l
             WHERE NOT EXISTS (SELECT 1 FROM eventhub_deliveries h WHERE h.lane = l.value AND h.state <> 2));

-- name: drop_lanes
-- A key without deliveries is forgotten.
DELETE FROM eventhub_lanes WHERE id IN (SELECT value FROM carray(:lanes))
  AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.lane = eventhub_lanes.id AND d.state <> 2);
