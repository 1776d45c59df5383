-- name: hub_id
SELECT value FROM eventhub_meta WHERE key = 'hub';

-- name: subscribers_version
SELECT CAST(value AS INTEGER) FROM eventhub_meta WHERE key = 'subscribers';

-- name: subscriber_changes
-- Of what they want and of how they are, together.
SELECT sum(CAST(value AS INTEGER)) FROM eventhub_meta WHERE key IN ('subscribers', 'subscriber_states');

-- name: touch_subscribers
-- In the transaction of every change: whoever remembers subscribers sees that they are not what they were.
UPDATE eventhub_meta SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE key = 'subscribers';

-- name: touch_states
UPDATE eventhub_meta SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE key = 'subscriber_states';

-- name: subscribers
SELECT id, name, document, sealed, status, reason, circuit, circuit_until, circuit_opens, version, created_at, updated_at
FROM eventhub_subscribers ORDER BY name;

-- name: subscriber
SELECT id, name, document, sealed, status, reason, circuit, circuit_until, circuit_opens, version, created_at, updated_at
FROM eventhub_subscribers WHERE id = :id;

-- name: add_subscriber
INSERT INTO eventhub_subscribers (id, name, document, sealed, status, reason, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING RETURNING id;

-- name: name_owner
SELECT id FROM eventhub_subscribers WHERE name = :name;

-- name: change_subscriber
-- Only what its editor has seen is replaced.
UPDATE eventhub_subscribers
SET name = :name, document = :document, sealed = :sealed, version = version + 1, updated_at = :now
WHERE id = :id AND version = :version
  AND NOT EXISTS (SELECT 1 FROM eventhub_subscribers o WHERE o.name = :name AND o.id <> :id) RETURNING id;

-- name: limit_messages
-- A new limit holds for what waits already, too; who may be sent something once only must not get it twice.
UPDATE eventhub_deliveries SET max_attempts = :limit WHERE subscriber = :id AND max_attempts IS NOT :limit;

-- name: set_status
-- A new beginning: the circuit is closed, too.
UPDATE eventhub_subscribers
SET status = :status, reason = :reason, circuit = 'closed', circuit_until = NULL, circuit_opens = 0,
    version = version + 1, updated_at = :now
WHERE id = :id AND status <> :status
  AND (:expect IS NULL OR status IN (SELECT value FROM json_each(:expect))) RETURNING id;

-- name: open_circuit
-- The first who says so opens it.
UPDATE eventhub_subscribers SET circuit = 'open', circuit_until = :until, circuit_opens = circuit_opens + 1
WHERE id = :id AND circuit = 'closed' RETURNING id;

-- name: take_probes
-- Of all who would try, one may; the others see a later time.
UPDATE eventhub_subscribers SET circuit_until = ?2, circuit_opens = circuit_opens + 1
WHERE id = ?1 AND circuit = 'open' AND circuit_until <= ?3 RETURNING id;

-- name: close_circuit
UPDATE eventhub_subscribers SET circuit = 'closed', circuit_until = NULL, circuit_opens = 0
WHERE id = :id AND circuit = 'open' RETURNING id;

-- name: remove_subscriber
DELETE FROM eventhub_subscribers WHERE id = :id RETURNING id;

-- name: messages_of
-- Some of the messages of a subscriber, with their ordering keys.
SELECT id, lane FROM eventhub_deliveries WHERE subscriber = :id ORDER BY id LIMIT :limit;

-- name: ownerless
-- Subscribers that are gone, and have messages all the same: whoever removed them did not come to the end of it.
SELECT DISTINCT d.subscriber FROM eventhub_deliveries d
WHERE d.subscriber IS NOT NULL AND NOT EXISTS (SELECT 1 FROM eventhub_subscribers s WHERE s.id = d.subscriber);

-- name: log_cancelled
-- Whoever holds them. The parked are dead already.
INSERT INTO eventhub_event_log (event_id, delivery_id, action, worker, attempt, fence, subscriber, created_at)
SELECT event_id, id, 'CANCELLED', :by, attempts, fence, subscriber, :now FROM eventhub_deliveries
WHERE id IN (SELECT value FROM carray(:ids)) AND state <> 4 ORDER BY id RETURNING 1;

-- name: markers
-- The oldest; the write lock sees to it that one process hands out at a time.
SELECT f.event_id, e.type, e.ordering_key, e.metadata, CASE WHEN :payload THEN e.payload END, f.targets, f.alone, f.due
FROM (SELECT * FROM eventhub_fanout ORDER BY event_id LIMIT :limit) f
CROSS JOIN eventhub_events e ON e.id = f.event_id ORDER BY f.event_id;

-- name: insert_message
INSERT INTO eventhub_deliveries (id, event_id, subscriber, route, lane, key, state, parks, max_attempts, due, fence,
                                 attempts, failures)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, 0, 0);

-- name: drop_markers
DELETE FROM eventhub_fanout WHERE event_id IN (SELECT value FROM carray(:ids));

-- name: fanout_waiting
SELECT (SELECT count(*) FROM (SELECT 1 FROM eventhub_fanout LIMIT :limit)),
       (SELECT e.created_at FROM eventhub_events e WHERE e.id = (SELECT min(event_id) FROM eventhub_fanout));

-- name: active_subscribers
-- Nothing is taken for one that was paused since the dispatcher looked.
SELECT id FROM eventhub_subscribers WHERE status = 'active';

-- name: claim_messages
-- The oldest of a route: a subscriber's first attempts, or its retries. The message's own key goes before its event's.
SELECT d.id, d.fence, d.lane, d.subscriber, d.event_id, e.type, e.payload, e.metadata, coalesce(d.key, e.ordering_key),
       e.created_at, d.attempts, d.failures, d.max_attempts
FROM eventhub_deliveries d JOIN eventhub_events e ON e.id = d.event_id
WHERE d.state = 0 AND d.route = :route ORDER BY d.event_id LIMIT :limit;
