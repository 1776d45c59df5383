-- name: sweep
-- When something is due, whether something waits to be handed out, and about the highest time that a sweep has seen.
SELECT (SELECT min(due) FROM (SELECT min(due) AS due FROM eventhub_deliveries WHERE state = 1
                              UNION ALL SELECT min(due) FROM eventhub_deliveries WHERE state = 3)),
       EXISTS (SELECT 1 FROM eventhub_fanout), (SELECT CAST(value AS INTEGER) FROM eventhub_meta WHERE key = 'clock');

-- name: note_clock
UPDATE eventhub_meta SET value = CAST(:now AS TEXT) WHERE key = 'clock';

-- name: follow_clock
-- The clock was set back: what waits beyond the highest time seen was scheduled before that, and is moved by as much. What
-- was asked for at a time stays there.
UPDATE eventhub_deliveries SET due = due - (:high - :now)
WHERE due > :high
  AND NOT EXISTS (SELECT 1 FROM eventhub_events e WHERE e.id = eventhub_deliveries.event_id AND e.deliver_at = eventhub_deliveries.due);

-- name: follow_clock_in_fanout
UPDATE eventhub_fanout SET due = due - (:high - :now)
WHERE due > :high
  AND NOT EXISTS (SELECT 1 FROM eventhub_events e WHERE e.id = eventhub_fanout.event_id AND e.deliver_at = eventhub_fanout.due);

-- name: due_waiting
SELECT id FROM eventhub_deliveries WHERE state = 3 AND due <= :now ORDER BY due LIMIT :limit;

-- name: promote
-- Retries whose time has come are ready again.
UPDATE eventhub_deliveries SET state = 0, due = NULL WHERE +state = 3 AND id IN (SELECT value FROM carray(:ids));

-- name: ended_leases
-- Strictly past its end a lease is abandoned; exactly at it, not yet.
SELECT id, fence, attempts, max_attempts, lane, worker, due FROM eventhub_deliveries
WHERE state = 1 AND due < :now ORDER BY due LIMIT :limit;

-- name: held_by
SELECT id, fence, attempts, max_attempts, lane, worker, due FROM eventhub_deliveries
WHERE state = 1 AND worker IN (SELECT value FROM carray(:workers)) LIMIT :limit;

-- name: holders
-- Who has open claims in a queue.
SELECT DISTINCT d.worker FROM eventhub_deliveries d JOIN eventhub_routes r ON r.id = d.route
WHERE d.state = 1 AND d.worker IS NOT NULL AND r.queue = :queue;

-- name: next_due
SELECT min(due) FROM (SELECT min(due) AS due FROM eventhub_deliveries WHERE state = 1
                      UNION ALL SELECT min(due) FROM eventhub_deliveries WHERE state = 3);

-- name: reset
-- An operator takes a delivery away from its worker: the claim is void from here on. It was an attempt, but not a
-- failure; when it was the last one allowed, the operator grants another.
UPDATE eventhub_deliveries SET state = 0, due = NULL, worker = NULL,
       max_attempts = CASE WHEN max_attempts <= attempts THEN attempts + 1 ELSE max_attempts END
WHERE id = :id AND state = 1
RETURNING event_id, attempts, fence;
