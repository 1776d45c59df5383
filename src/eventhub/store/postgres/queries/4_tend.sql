-- name: tend
-- One look, one round trip: retries whose time has come are ready again; leases strictly past their end are abandoned,
-- which counts as a failed attempt; those with no attempt left are returned to be buried. The clock is noted every five
-- seconds; when it is five seconds or more below what was noted, that comes back, too.
WITH clock AS MATERIALIZED (
  SELECT (extract(epoch FROM coalesce($1, now())) * 1000000)::bigint AS micros),
noted AS (
  UPDATE eventhub.meta SET value = (SELECT micros FROM clock)::text
  WHERE key = 'clock' AND ctid = (SELECT ctid FROM eventhub.meta
                                  WHERE key = 'clock' AND value::bigint <= (SELECT micros FROM clock) - 5000000
                                  FOR UPDATE SKIP LOCKED)),
due AS MATERIALIZED (
  SELECT ctid AS tid FROM eventhub.deliveries WHERE state = 3 AND due <= coalesce($1, now())
  ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED),
promoted AS (
  UPDATE eventhub.deliveries SET state = 0, due = NULL WHERE ctid = ANY (ARRAY (SELECT tid FROM due))
  RETURNING route, event_id),
ended AS MATERIALIZED (
  SELECT ctid AS tid, id, fence, lane, worker, attempts >= max_attempts AS last FROM eventhub.deliveries
  WHERE state = 1 AND due < coalesce($1, now()) ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED),
abandoned AS (
  UPDATE eventhub.deliveries d
  SET state = 0, due = NULL, failures = d.failures + 1, worker = NULL,
      errors = CASE WHEN jsonb_array_length(d.errors) >= 100 THEN d.errors - 0 ELSE coalesce(d.errors, '[]') END
               || to_jsonb('Abandoned: ' || n.worker || ' did not report before its lease ended.')
  FROM ended n WHERE d.ctid = n.tid AND n.last IS NOT TRUE
  RETURNING d.id, d.route, d.event_id, d.attempts, d.fence, n.worker),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, error, created_at)
  SELECT event_id, id, 'ABANDONED', worker, attempts, fence,
         'Abandoned: ' || worker || ' did not report before its lease ended.', coalesce($1, now())
  FROM abandoned)
SELECT 'promoted' AS kind, route, event_id, NULL::bigint AS id, NULL::integer AS fence, NULL::bigint AS lane,
       NULL::text AS worker
FROM promoted
UNION ALL SELECT 'abandoned', route, event_id, id, fence, NULL, worker FROM abandoned
UNION ALL SELECT 'last', NULL, NULL, id, fence, lane, worker FROM ended WHERE last
UNION ALL SELECT 'set back', NULL, NULL, NULL, NULL, NULL, NULL FROM eventhub.meta
          WHERE key = 'clock' AND value::bigint >= (SELECT micros FROM clock) + 5000000;

-- name: follow_clock
-- The clock was set back: what waits beyond the highest time seen was scheduled before that, and is moved by as much. Only
-- the first sweep that notices does so, as it notes the new time. What was asked for at a time stays there. A row that
-- somebody holds at this moment is about to be scheduled anew.
WITH step AS MATERIALIZED (
  SELECT timestamptz 'epoch' + m.value::bigint * interval '1 microsecond' AS high, t.now
  FROM eventhub.meta m CROSS JOIN (SELECT coalesce($1, now()) AS now) t
  WHERE m.key = 'clock' AND m.value::bigint >= (extract(epoch FROM t.now) * 1000000)::bigint + 5000000
  FOR UPDATE OF m),
noted AS (
  UPDATE eventhub.meta SET value = (extract(epoch FROM s.now) * 1000000)::bigint::text FROM step s WHERE key = 'clock'),
late AS MATERIALIZED (
  SELECT d.ctid AS tid FROM eventhub.deliveries d CROSS JOIN step s
  WHERE d.due > s.high
    AND NOT EXISTS (SELECT FROM eventhub.events e WHERE e.id = d.event_id AND e.deliver_at = d.due)
  FOR UPDATE OF d SKIP LOCKED),
markers AS (
  UPDATE eventhub.fanout f SET due = f.due - (s.high - s.now) FROM step s
  WHERE f.due > s.high
    AND NOT EXISTS (SELECT FROM eventhub.events e WHERE e.id = f.event_id AND e.deliver_at = f.due))
UPDATE eventhub.deliveries d SET due = d.due - (s.high - s.now) FROM step s
WHERE d.ctid = ANY (ARRAY (SELECT tid FROM late));

-- name: held_by
-- The open claims of workers that are known to be dead.
SELECT id, fence, lane, worker, attempts, max_attempts FROM eventhub.deliveries
WHERE state = 1 AND worker = ANY ($1::text[]) ORDER BY id;

-- name: take_back
-- The claims of dead workers, without waiting for their leases; each counts as a failed attempt.
WITH hit AS MATERIALIZED (
  SELECT d.tid, d.worker AS was FROM unnest($1::bigint[], $2::integer[]) AS r(id, fence)
  CROSS JOIN LATERAL (SELECT ctid AS tid, worker FROM eventhub.deliveries
                      WHERE id = r.id AND fence = r.fence AND state + 0 = 1 LIMIT 1 FOR UPDATE SKIP LOCKED) d),
abandoned AS (
  UPDATE eventhub.deliveries d
  SET state = 0, due = NULL, failures = d.failures + 1, worker = NULL,
      errors = CASE WHEN jsonb_array_length(d.errors) >= 100 THEN d.errors - 0 ELSE coalesce(d.errors, '[]') END
               || to_jsonb('Abandoned: ' || h.was || ' did not report before its lease ended.')
  FROM hit h WHERE d.ctid = h.tid
  RETURNING d.id, d.route, d.event_id, d.attempts, d.fence, h.was),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, error, created_at)
  SELECT event_id, id, 'ABANDONED', was, attempts, fence,
         'Abandoned: ' || was || ' did not report before its lease ended.', coalesce($3, now())
  FROM abandoned)
SELECT id, route, event_id FROM abandoned;

-- name: holders
-- Who has open claims in a queue.
SELECT DISTINCT d.worker FROM eventhub.deliveries d
WHERE d.state = 1 AND d.worker IS NOT NULL AND d.route IN (SELECT id FROM eventhub.routes WHERE queue = $1 AND NOT retired);

-- name: next_due
-- Two index look-ups.
SELECT extract(epoch FROM least((SELECT min(due) FROM eventhub.deliveries WHERE state = 1),
                                (SELECT min(due) FROM eventhub.deliveries WHERE state = 3))
                          - coalesce($1, now()))::float8;

-- name: reset
-- An operator takes a delivery away from its worker: the claim is void from here on. It was an attempt, but not a
-- failure; when it was the last one allowed, the operator grants another.
WITH freed AS (
  UPDATE eventhub.deliveries SET state = 0, due = NULL, worker = NULL,
         max_attempts = CASE WHEN max_attempts <= attempts THEN attempts + 1 ELSE max_attempts END
  WHERE id = $1 AND state + 0 = 1
  RETURNING id, route, event_id, attempts, fence),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, attempt, fence, error, created_at)
  SELECT event_id, id, 'RESET', attempts, fence, $2, coalesce($3, now()) FROM freed)
SELECT route, event_id FROM freed;

-- name: make_log_days
-- Partitions for the days to come.
SELECT eventhub.make_log_days((now() AT TIME ZONE 'UTC')::date, 8);
