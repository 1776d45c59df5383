-- Ending claims. Arrays are given as (SELECT $1) for the reason told in 2_claim.sql.

-- name: standing
-- How deliveries stand.
SELECT d.id, d.event_id, d.fence, d.state, d.lane, d.worker, d.attempts, d.max_attempts, d.due, d.failures,
       (SELECT r.queue FROM eventhub.routes r WHERE r.id = d.route), d.claimed_by
FROM eventhub.deliveries d WHERE d.id = ANY ($1::bigint[]);

-- name: hold_lanes
-- Locked first and in order, before anything is decided about their deliveries: two who settle cannot wait in a circle,
-- and a publisher sees either the head or the key without one, never the moment between.
SELECT id FROM eventhub.lanes WHERE id = ANY ((SELECT $1::bigint[])::bigint[]) ORDER BY id FOR UPDATE;

-- name: hold_deliveries
-- Locked in order, for those who then change them in several statements or must see them as they are by then.
SELECT id FROM eventhub.deliveries WHERE id = ANY ((SELECT $1::bigint[])::bigint[]) ORDER BY id FOR UPDATE;

-- name: complete
-- Each row is looked up by id (a join would scan for it), judged by fence and state, and leaves the hot table. The lane
-- must be the one that was locked: whoever forgot it is refused, or a key would be left without a head. Numbers come as the
-- texts of their arrays, and a column that says the same of all (leased, and the rest empty) may be left out. The answer is
-- one row: when, and which were accepted, if not all were.
WITH report AS MATERIALIZED (
  SELECT r.id, r.fence, coalesce(r.leased, true) AS leased, r.lane, r.execution_ms, r.status_code, r.detail
  FROM unnest((SELECT $1::text::bigint[]), $2::text::integer[], $3::boolean[], $4::bigint[], $5::text::integer[],
              $6::text::integer[], $8::text[])
    AS r(id, fence, leased, lane, execution_ms, status_code, detail)),
hit AS MATERIALIZED (
  SELECT d.tid FROM report r
  CROSS JOIN LATERAL (SELECT ctid AS tid FROM eventhub.deliveries
                      WHERE id = r.id AND fence = r.fence AND state + 0 <> 4 AND (state + 0 = 1) = r.leased
                        AND lane IS NOT DISTINCT FROM r.lane
                      LIMIT 1 FOR UPDATE) d),
gone AS (
  DELETE FROM eventhub.deliveries WHERE ctid = ANY (ARRAY (SELECT tid FROM hit))
  RETURNING id, event_id, subscriber, key, worker, attempts, fence),
forgotten AS (
  DELETE FROM eventhub.handler_results WHERE event_id = ANY (ARRAY (SELECT id FROM gone))),
told AS (
  INSERT INTO eventhub.attempts (delivery_id, fence, event_id, subscriber, action, created_at, detail, key)
  SELECT g.id, g.fence, g.event_id, g.subscriber, 'COMPLETED', coalesce($7, now()), r.detail::json, g.key
  FROM gone g JOIN report r ON r.id = g.id AND r.fence = g.fence
  WHERE $8::text[] IS NOT NULL AND r.detail IS NOT NULL AND g.subscriber IS NOT NULL),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, status_code, execution_ms,
                                  created_at)
  SELECT g.event_id, g.id, 'COMPLETED', g.worker, g.attempts, g.fence, r.status_code, r.execution_ms,
         coalesce($7, now())
  FROM gone g JOIN report r ON r.id = g.id AND r.fence = g.fence)
SELECT coalesce($7, now()), CASE WHEN count(*) < (SELECT count(*) FROM report) THEN coalesce(array_agg(id), '{}') END,
       CASE WHEN count(*) < (SELECT count(*) FROM report) THEN coalesce(array_agg(fence), '{}') END
FROM gone;

-- name: complete_alike
-- As complete, for what is alike: leased under one fence, without lanes, and nothing but times to tell. No row is locked
-- beforehand. One that another changes meanwhile is waited for, and judged anew by the conditions of the deletion itself:
-- it goes only if it is still held under this fence. Either way the answer says which went. $3 has the times, unless $4 is
-- that of all.
WITH gone AS (
  DELETE FROM eventhub.deliveries
  WHERE ctid = ANY (ARRAY (
          SELECT (SELECT d.ctid FROM eventhub.deliveries d WHERE d.id = r.id AND d.fence = $2 AND d.state + 0 = 1)
          FROM unnest((SELECT $1::text::bigint[])) AS r(id)))
    AND fence = $2 AND state + 0 = 1 AND lane IS NULL
  RETURNING id, event_id, worker, attempts),
forgotten AS (
  DELETE FROM eventhub.handler_results WHERE event_id = ANY (ARRAY (SELECT id FROM gone))),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, execution_ms, created_at, xid)
  SELECT g.event_id, g.id, 'COMPLETED', g.worker, g.attempts, $2, coalesce($4::integer, r.execution_ms), coalesce($5, now()),
         (SELECT pg_current_xact_id()::text::bigint)
  FROM gone g LEFT JOIN unnest(CASE WHEN $4::integer IS NULL THEN $1::text::bigint[] END, $3::text::integer[])
                          AS r(id, execution_ms) ON r.id = g.id)
SELECT coalesce($5, now()), CASE WHEN count(*) < cardinality($1::text::bigint[]) THEN coalesce(array_agg(id), '{}') END
FROM gone;

-- name: fail
-- A failed attempt: counted, its error kept (the last hundred of them), and due again later or at once, perhaps on
-- another route.
WITH report AS MATERIALIZED (
  SELECT * FROM unnest((SELECT $1::bigint[]), $2::integer[], $3::text[], $4::interval[], $5::integer[], $6::integer[],
                       $8::text[], $9::integer[])
    AS r(id, fence, error, delay, execution_ms, status_code, detail, again)),
hit AS MATERIALIZED (
  SELECT d.tid, d.worker AS was, r.* FROM report r
  CROSS JOIN LATERAL (SELECT ctid AS tid, worker FROM eventhub.deliveries
                      WHERE id = r.id AND fence = r.fence AND state + 0 = 1 LIMIT 1 FOR UPDATE) d),
failed AS (
  UPDATE eventhub.deliveries d
  SET state = CASE WHEN h.delay > interval '0' THEN 3 ELSE 0 END,
      due = CASE WHEN h.delay > interval '0' THEN coalesce($7, now()) + h.delay END,
      failures = d.failures + 1, worker = NULL, route = coalesce(h.again, d.route),
      errors = CASE WHEN jsonb_array_length(d.errors) >= 100 THEN d.errors - 0 ELSE coalesce(d.errors, '[]') END
               || to_jsonb(h.error)
  FROM hit h WHERE d.ctid = h.tid
  RETURNING d.id, d.event_id, d.subscriber, d.route, d.state, d.attempts, d.fence, h.was, h.error, h.execution_ms,
            h.status_code, h.detail),
told AS (
  INSERT INTO eventhub.attempts (delivery_id, fence, event_id, subscriber, action, created_at, detail)
  SELECT id, fence, event_id, subscriber, 'FAILED', coalesce($7, now()), detail::json
  FROM failed WHERE detail IS NOT NULL AND subscriber IS NOT NULL),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, status_code, error,
                                  execution_ms, created_at)
  SELECT event_id, id, 'FAILED', was, attempts, fence, status_code, error, execution_ms, coalesce($7, now())
  FROM failed)
SELECT id, fence, coalesce($7, now()), route, event_id, state FROM failed;

-- name: release
-- Neither success nor failure: the attempt is not charged, the fence stays where it is.
WITH hit AS MATERIALIZED (
  SELECT d.tid, d.worker AS was, r.delay
  FROM unnest((SELECT $1::bigint[]), $2::integer[], $3::interval[]) AS r(id, fence, delay)
  CROSS JOIN LATERAL (SELECT ctid AS tid, worker FROM eventhub.deliveries
                      WHERE id = r.id AND fence = r.fence AND state + 0 = 1 LIMIT 1 FOR UPDATE) d),
released AS (
  UPDATE eventhub.deliveries d
  SET state = CASE WHEN h.delay > interval '0' THEN 3 ELSE 0 END,
      due = CASE WHEN h.delay > interval '0' THEN coalesce($4, now()) + h.delay END,
      attempts = d.attempts - 1, worker = NULL
  FROM hit h WHERE d.ctid = h.tid
  RETURNING d.id, d.event_id, d.route, d.state, d.attempts, d.fence, h.was),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
  SELECT event_id, id, 'RELEASED', was, attempts, fence, coalesce($4, now()) FROM released)
SELECT id, fence, coalesce($4, now()), route, event_id, state FROM released;

-- name: bury
-- The dead letter keeps everything: the event and its subscriber as they were, every error, who had it last, and the
-- fence to go on from.
-- The dead leave, or stay parked when their key must be held; the log tells otherwise of what was cancelled. $10 is given by the sweep: only a lease that ended before
-- it counts, so one that was extended meanwhile is spared.
WITH report AS MATERIALIZED (
  SELECT * FROM unnest((SELECT $1::bigint[]), $2::integer[], $3::boolean[], $4::bigint[], $5::text[], $6::text[], $7::text[],
                       $8::integer[], $9::integer[], $13::text[])
    AS r(id, fence, leased, lane, error, reason, status, execution_ms, status_code, detail)),
hit AS MATERIALIZED (
  SELECT d.*, r.error, r.reason, r.status, r.execution_ms, r.status_code, r.detail,
         d.parks AND d.lane IS NOT NULL AND d.state <> 2 AND r.reason <> 'cancelled' AS holds
  FROM report r
  CROSS JOIN LATERAL (SELECT ctid AS tid, * FROM eventhub.deliveries
                      WHERE id = r.id AND fence = r.fence AND state + 0 <> 4 AND (state + 0 = 1) = r.leased
                        AND lane IS NOT DISTINCT FROM r.lane AND ($10::timestamptz IS NULL OR due < $10)
                      LIMIT 1 FOR UPDATE) d),
letter AS (
  INSERT INTO eventhub.dead_letters (delivery_id, event_id, subscriber, consumer, announced, lane, key, route, fence, attempts, failures,
                                     max_attempts, worker, parks, errors, reason, status, dead_at, type, payload,
                                     metadata, tags, title, description, ordering_key, idempotency_key, created_at,
                                     handlers)
  SELECT h.id, h.event_id, h.subscriber,
         (SELECT s.document FROM eventhub.subscribers s WHERE s.id = h.subscriber), h.subscriber IS NULL, h.lane, h.key, h.route, h.fence, h.attempts,
         h.failures + (h.error IS NOT NULL AND h.state = 1)::integer, h.max_attempts, h.worker, h.parks,
         CASE WHEN h.error IS NULL THEN h.errors
              ELSE CASE WHEN jsonb_array_length(h.errors) >= 100 THEN h.errors - 0 ELSE coalesce(h.errors, '[]') END
                   || to_jsonb(h.error) END,
         h.reason, h.status, coalesce($12, now()), e.type, e.payload, e.metadata, e.tags, e.title, e.description,
         e.ordering_key, e.idempotency_key, e.created_at, h.handlers
  FROM hit h JOIN eventhub.events e ON e.id = h.event_id),
told AS (
  INSERT INTO eventhub.attempts (delivery_id, fence, event_id, subscriber, action, created_at, detail)
  SELECT id, fence, event_id, subscriber, $11, coalesce($12, now()), detail::json
  FROM hit WHERE detail IS NOT NULL AND subscriber IS NOT NULL),
parked AS (
  UPDATE eventhub.deliveries d SET state = 4, worker = NULL, due = NULL,
         failures = d.failures + coalesce((SELECT (h.error IS NOT NULL AND h.state = 1)::integer FROM hit h
                                           WHERE h.id = d.id), 0)
  WHERE d.ctid = ANY (ARRAY (SELECT tid FROM hit WHERE holds))),
gone AS (
  DELETE FROM eventhub.deliveries WHERE ctid = ANY (ARRAY (SELECT tid FROM hit WHERE NOT holds))),
forgotten AS (
  DELETE FROM eventhub.handler_results WHERE event_id = ANY (ARRAY (SELECT id FROM hit))),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, status_code, error,
                                  execution_ms, created_at)
  SELECT event_id, id, $11, worker, attempts, fence, status_code, error, execution_ms, coalesce($12, now())
  FROM hit WHERE error IS NOT NULL
  UNION ALL
  SELECT event_id, id, 'DEAD', worker, attempts, fence, NULL, reason, NULL, coalesce($12, now()) FROM hit
  WHERE reason <> 'cancelled')
SELECT id, fence, coalesce($12, now()) FROM hit;

-- name: advance
-- The next of a key steps forward, unless the key still has a head, and a key with nothing left is forgotten. A statement
-- of its own, after the lanes are locked: it must see what every other transaction on these keys has committed.
-- Ids of a key grow in the order in which its lane was locked. So when it is known which head has left ($2), whoever is
-- next comes behind it, and only its own row tells whether it has gone: nothing that left before is stepped over, which an
-- old snapshot keeps from being cleaned away. Where something older has returned, the look is from the beginning.
-- Only one index gives the order by lane and id; by id alone the way through all that waits would look short to who has
-- only seen a hot key. LIMIT, OFFSET 0: look at the head of each key, never through all heads.
WITH freed AS MATERIALIZED (
  SELECT w.lane, CASE WHEN w.past IS NULL OR coalesce(l.returned, true) THEN 0 ELSE w.past END AS past
  FROM unnest((SELECT $1::bigint[]), $2::bigint[]) AS w(lane, past)
  LEFT JOIN LATERAL (SELECT returned FROM eventhub.lanes WHERE id = w.lane OFFSET 0) l ON true
  WHERE CASE WHEN w.past IS NOT NULL
             THEN (SELECT 1 FROM eventhub.deliveries h WHERE h.id = w.past AND h.lane + 0 = w.lane LIMIT 1) IS NULL
             ELSE (SELECT 1 FROM eventhub.deliveries h
                   WHERE h.lane >= w.lane AND h.lane <= w.lane AND h.lane IS NOT NULL AND h.state <> 2
                   ORDER BY h.lane DESC, h.id DESC LIMIT 1) IS NULL END),
next AS MATERIALIZED (
  SELECT f.lane, n.tid FROM freed f
  LEFT JOIN LATERAL (SELECT b.ctid AS tid FROM eventhub.deliveries b
                     WHERE (b.lane, b.id) > (f.lane, f.past) AND b.lane <= f.lane AND b.state = 2
                     ORDER BY b.lane, b.id LIMIT 1) n ON true),
forgotten AS (DELETE FROM eventhub.lanes WHERE id = ANY (ARRAY (SELECT lane FROM next WHERE tid IS NULL)))
UPDATE eventhub.deliveries d
SET state = CASE WHEN d.due > coalesce($3, now()) THEN 3 ELSE 0 END,
    due = CASE WHEN d.due > coalesce($3, now()) THEN d.due END
WHERE d.ctid = ANY (ARRAY (SELECT tid FROM next WHERE tid IS NOT NULL))
RETURNING d.route, d.event_id, d.state;

-- name: drop_lanes
-- A key without deliveries is forgotten.
DELETE FROM eventhub.lanes l WHERE l.id = ANY ((SELECT $1::bigint[])::bigint[])
  AND NOT EXISTS (SELECT 1 FROM eventhub.deliveries d WHERE d.lane = l.id AND d.lane IS NOT NULL AND d.state <> 2
                  OFFSET 0);
