-- name: last_event
SELECT coalesce(max(id), 0) FROM eventhub_events;

-- name: logged_from
SELECT min(event_id) FROM eventhub_event_log WHERE event_id >= :first;

-- name: snapshot_events
SELECT e.id, e.type, e.payload, e.ordering_key, e.idempotency_key, r.queue, e.created_at / 1e6
FROM eventhub_events e JOIN eventhub_routes r ON r.id = e.route WHERE e.id >= :first AND e.id < :last ORDER BY e.id;

-- name: snapshot_log
SELECT id, event_id, delivery_id, action, worker, attempt, fence, status_code, error, subscriber, created_at / 1e6
FROM eventhub_event_log WHERE event_id >= :first AND event_id < :last ORDER BY event_id, id;

-- name: snapshot_deliveries
-- What is still open; after all is done it is little.
SELECT id, event_id, subscriber, key, state, fence, attempts, failures, max_attempts, worker, due / 1e6
FROM eventhub_deliveries WHERE event_id >= :first AND event_id < :last ORDER BY id;

-- name: snapshot_dead_letters
SELECT id, delivery_id, event_id, subscriber, consumer, coalesce(key, ordering_key), fence, attempts, failures,
       max_attempts, worker, errors, reason, status, payload, dead_at / 1e6, retried_at / 1e6
FROM eventhub_dead_letters WHERE event_id >= :first AND event_id < :last ORDER BY id;

-- name: snapshot_markers
SELECT event_id, alone, due / 1e6 FROM eventhub_fanout WHERE event_id >= :first AND event_id < :last ORDER BY event_id;
