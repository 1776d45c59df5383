-- name: last_event
SELECT coalesce(max(id), 0) FROM eventhub.events;

-- name: logged_from
SELECT min(event_id) FROM eventhub.event_log WHERE event_id >= $1;

-- name: snapshot_events
SELECT e.id, e.type, e.payload::text, e.ordering_key, e.idempotency_key, r.queue,
       extract(epoch FROM e.created_at)::float8
FROM eventhub.events e JOIN eventhub.routes r ON r.id = e.route WHERE e.id >= $1 AND e.id < $2 ORDER BY e.id;

-- name: snapshot_log
SELECT id, event_id, delivery_id, action, worker, attempt, fence, status_code, error, subscriber,
       extract(epoch FROM created_at)::float8
FROM eventhub.event_log WHERE event_id >= $1 AND event_id < $2 ORDER BY event_id, id;

-- name: snapshot_deliveries
-- What is still open; after all is done it is little.
SELECT id, event_id, subscriber, key, state, fence, attempts, failures, max_attempts, worker,
       extract(epoch FROM due)::float8
FROM eventhub.deliveries WHERE event_id >= $1 AND event_id < $2 ORDER BY id;

-- name: snapshot_dead_letters
SELECT id, delivery_id, event_id, subscriber, consumer::text, coalesce(key, ordering_key), fence, attempts, failures,
       max_attempts, worker, errors::text, reason, status, payload::text, extract(epoch FROM dead_at)::float8,
       extract(epoch FROM retried_at)::float8
FROM eventhub.dead_letters WHERE event_id >= $1 AND event_id < $2 ORDER BY id;

-- name: snapshot_markers
SELECT event_id, alone, extract(epoch FROM due)::float8 FROM eventhub.fanout
WHERE event_id >= $1 AND event_id < $2 ORDER BY event_id;
