-- Taking work. (SELECT $1) keeps the length of an array from the planner: who knows it to be short plans each statement
-- anew, for the plan for any length looks dearer, and that takes longer than the work itself.

-- name: claim_route
-- Only ready deliveries are in the index, so the cost does not depend on what else waits; the floor ($5) steps over
-- entries of claimed rows that an old snapshot keeps from being cleaned away. $3 is the one worker that gets all of it, or
-- a worker for each, of whom the first gets the oldest. The fence goes on above those of earlier incarnations ($9).
-- The answer is one row of columns, in the order of the events, because the other side needs more time for a row than for
-- what is in it: when the leases end; the ids; the payloads, between characters that JSON has no place for; the types and
-- times, one for all if it is the same; more about those that are not claimed for the first time, or have more than a type
-- and a payload; whose they are, if not all of one; and the last change of a route, for who made one the oldest may wait
-- there. A column is put together in memory, and has its limit: instead of a payload or metadata that are large, or that
-- may be because they are compressed, it says nothing. claimed_large has them.
WITH pick AS MATERIALIZED (
  SELECT ctid AS tid FROM eventhub.deliveries WHERE state = 0 AND route = $1 AND event_id >= $5
  ORDER BY event_id LIMIT $2 FOR UPDATE SKIP LOCKED),
taken AS (
  UPDATE eventhub.deliveries SET state = 1, fence = greatest(fence, $9) + 1, attempts = attempts + 1,
         worker = CASE cardinality($3::text[]) WHEN 1 THEN ($3::text[])[1]
                  ELSE ($3::text[])[array_position(ARRAY (SELECT tid FROM pick), ctid)] END,
         due = coalesce($7, now()) + $4::interval, max_attempts = coalesce($6, max_attempts), claimed_by = $8
  WHERE ctid = ANY (ARRAY (SELECT tid FROM pick))
  RETURNING id, event_id, fence, attempts, failures, lane, max_attempts, due, worker),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
  SELECT event_id, id, 'PICKED', worker, attempts, fence, coalesce($7, now()) FROM taken)
SELECT min(c.due), array_agg(c.id)::text,
       string_agg(CASE WHEN c.large THEN '' ELSE c.payload::text END, E'\x1e'),
       CASE WHEN min(c.type) = max(c.type) THEN ARRAY[min(c.type)] ELSE array_agg(c.type) END,
       CASE WHEN min(c.created_at) = max(c.created_at) THEN ARRAY[min(c.created_at)] ELSE array_agg(c.created_at) END,
       json_agg(json_build_array(c.id, c.fence, c.attempts, c.failures, c.lane, c.max_attempts,
                                 CASE WHEN NOT c.large THEN c.metadata END, c.tags, c.title, c.description,
                                 c.ordering_key, c.idempotency_key)) FILTER (WHERE c.special),
       CASE WHEN cardinality($3::text[]) > 1 THEN array_agg(c.worker) END, (SELECT max(changed) FROM eventhub.routes)
FROM (SELECT t.id, t.fence, t.attempts, t.failures, t.lane, t.max_attempts, t.due, t.worker, e.type COLLATE "C" AS type,
             e.payload, e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key, e.created_at,
             pg_column_size(e.payload) >= 8000 OR pg_column_compression(e.payload) IS NOT NULL
             OR e.metadata IS NOT NULL
                AND (pg_column_size(e.metadata) >= 8000 OR pg_column_compression(e.metadata) IS NOT NULL) AS large,
             t.fence <> $9 + 1 OR t.attempts <> 1 OR t.failures <> 0 OR t.lane IS NOT NULL
             OR t.max_attempts IS DISTINCT FROM $6::integer
             OR num_nonnulls(e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key) > 0 AS special
      FROM taken t JOIN eventhub.events e ON e.id = t.event_id ORDER BY t.event_id) c;

-- name: claim_route_by_id
-- As claim_route, but those of the given ids ($10) that are ready come first. All of them lie below the floor, the oldest
-- first, and they are no more than are wanted: so whatever is locked is taken.
WITH known AS MATERIALIZED (
  SELECT d.tid FROM unnest((SELECT $10::bigint[])) AS w(id)
  CROSS JOIN LATERAL (SELECT ctid AS tid FROM eventhub.deliveries
                      WHERE id = w.id AND state + 0 = 0 AND route + 0 = $1 LIMIT 1 FOR UPDATE SKIP LOCKED) d),
following AS MATERIALIZED (
  SELECT ctid AS tid FROM eventhub.deliveries WHERE state = 0 AND route = $1 AND event_id >= $5
  ORDER BY event_id LIMIT (SELECT $2 - count(*) FROM known) FOR UPDATE SKIP LOCKED),
pick AS MATERIALIZED (SELECT tid FROM known UNION ALL SELECT tid FROM following),
taken AS (
  UPDATE eventhub.deliveries SET state = 1, fence = greatest(fence, $9) + 1, attempts = attempts + 1,
         worker = CASE cardinality($3::text[]) WHEN 1 THEN ($3::text[])[1]
                  ELSE ($3::text[])[array_position(ARRAY (SELECT tid FROM pick), ctid)] END,
         due = coalesce($7, now()) + $4::interval, max_attempts = coalesce($6, max_attempts), claimed_by = $8
  WHERE ctid = ANY (ARRAY (SELECT tid FROM pick))
  RETURNING id, event_id, fence, attempts, failures, lane, max_attempts, due, worker),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
  SELECT event_id, id, 'PICKED', worker, attempts, fence, coalesce($7, now()) FROM taken)
SELECT min(c.due), array_agg(c.id)::text,
       string_agg(CASE WHEN c.large THEN '' ELSE c.payload::text END, E'\x1e'),
       CASE WHEN min(c.type) = max(c.type) THEN ARRAY[min(c.type)] ELSE array_agg(c.type) END,
       CASE WHEN min(c.created_at) = max(c.created_at) THEN ARRAY[min(c.created_at)] ELSE array_agg(c.created_at) END,
       json_agg(json_build_array(c.id, c.fence, c.attempts, c.failures, c.lane, c.max_attempts,
                                 CASE WHEN NOT c.large THEN c.metadata END, c.tags, c.title, c.description,
                                 c.ordering_key, c.idempotency_key)) FILTER (WHERE c.special),
       CASE WHEN cardinality($3::text[]) > 1 THEN array_agg(c.worker) END, (SELECT max(changed) FROM eventhub.routes)
FROM (SELECT t.id, t.fence, t.attempts, t.failures, t.lane, t.max_attempts, t.due, t.worker, e.type COLLATE "C" AS type,
             e.payload, e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key, e.created_at,
             pg_column_size(e.payload) >= 8000 OR pg_column_compression(e.payload) IS NOT NULL
             OR e.metadata IS NOT NULL
                AND (pg_column_size(e.metadata) >= 8000 OR pg_column_compression(e.metadata) IS NOT NULL) AS large,
             t.fence <> $9 + 1 OR t.attempts <> 1 OR t.failures <> 0 OR t.lane IS NOT NULL
             OR t.max_attempts IS DISTINCT FROM $6::integer
             OR num_nonnulls(e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key) > 0 AS special
      FROM taken t JOIN eventhub.events e ON e.id = t.event_id ORDER BY t.event_id) c;

-- name: claim_routes
-- Several routes, each from its floor ($9) on: look at the first few ($10) of each without locks, merge them by age, and
-- then lock of each route as many as are among the oldest: what others hold is stepped over. A route that had more than was
-- looked at may have others that are older than those that follow, which are left for another look.
-- Beside what claim_route answers: of the routes that had a share what was taken last, those that had anything at all, and
-- whether one had more.
WITH seen AS MATERIALIZED (
  SELECT w.route, w.floor, c.event_id, c.place FROM unnest((SELECT $1::integer[]), $9::bigint[]) AS w(route, floor)
  CROSS JOIN LATERAL (SELECT d.event_id, row_number() OVER (ORDER BY d.event_id) AS place FROM eventhub.deliveries d
                      WHERE d.state = 0 AND d.route = w.route AND d.event_id >= w.floor
                      ORDER BY d.event_id LIMIT $10) c),
share AS MATERIALIZED (
  SELECT o.route, o.floor, count(*) AS most FROM (
    SELECT s.route, s.floor FROM seen s
    WHERE s.event_id <= coalesce((SELECT min(event_id) FROM seen WHERE place = $10), 9223372036854775807)
    ORDER BY s.event_id LIMIT $2) o
  GROUP BY o.route, o.floor),
pick AS MATERIALIZED (
  SELECT p.tid FROM share s
  CROSS JOIN LATERAL (SELECT d.ctid AS tid, d.event_id FROM eventhub.deliveries d
                      WHERE d.state = 0 AND d.route = s.route AND d.event_id >= s.floor
                      ORDER BY d.event_id LIMIT s.most FOR UPDATE SKIP LOCKED) p
  ORDER BY p.event_id),
taken AS (
  UPDATE eventhub.deliveries SET state = 1, fence = greatest(fence, $8) + 1, attempts = attempts + 1,
         worker = CASE cardinality($3::text[]) WHEN 1 THEN ($3::text[])[1]
                  ELSE ($3::text[])[array_position(ARRAY (SELECT tid FROM pick), ctid)] END,
         due = coalesce($6, now()) + $4::interval, max_attempts = coalesce($5, max_attempts), claimed_by = $7
  WHERE ctid = ANY (ARRAY (SELECT tid FROM pick))
  RETURNING id, event_id, route, fence, attempts, failures, lane, max_attempts, due, worker),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
  SELECT event_id, id, 'PICKED', worker, attempts, fence, coalesce($6, now()) FROM taken)
SELECT min(c.due), array_agg(c.id)::text,
       string_agg(CASE WHEN c.large THEN '' ELSE c.payload::text END, E'\x1e'),
       CASE WHEN min(c.type) = max(c.type) THEN ARRAY[min(c.type)] ELSE array_agg(c.type) END,
       CASE WHEN min(c.created_at) = max(c.created_at) THEN ARRAY[min(c.created_at)] ELSE array_agg(c.created_at) END,
       json_agg(json_build_array(c.id, c.fence, c.attempts, c.failures, c.lane, c.max_attempts,
                                 CASE WHEN NOT c.large THEN c.metadata END, c.tags, c.title, c.description,
                                 c.ordering_key, c.idempotency_key)) FILTER (WHERE c.special),
       CASE WHEN cardinality($3::text[]) > 1 THEN array_agg(c.worker) END, (SELECT max(changed) FROM eventhub.routes),
       (SELECT json_object_agg(s.route, (SELECT max(t.event_id) FROM taken t WHERE t.route = s.route)) FROM share s),
       (SELECT array_agg(DISTINCT s.route) FROM seen s), (SELECT bool_or(s.place = $10) FROM seen s)
FROM (SELECT t.id, t.fence, t.attempts, t.failures, t.lane, t.max_attempts, t.due, t.worker, e.type COLLATE "C" AS type,
             e.payload, e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key, e.created_at,
             pg_column_size(e.payload) >= 8000 OR pg_column_compression(e.payload) IS NOT NULL
             OR e.metadata IS NOT NULL
                AND (pg_column_size(e.metadata) >= 8000 OR pg_column_compression(e.metadata) IS NOT NULL) AS large,
             t.fence <> $8 + 1 OR t.attempts <> 1 OR t.failures <> 0 OR t.lane IS NOT NULL
             OR t.max_attempts IS DISTINCT FROM $5::integer
             OR num_nonnulls(e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key) > 0 AS special
      FROM taken t JOIN eventhub.events e ON e.id = t.event_id ORDER BY t.event_id) c;

-- name: claimed_large
SELECT id, payload, metadata FROM eventhub.events WHERE id = ANY ($1::bigint[]);

-- name: ready_routes
-- One look-up a route and at most $2 entries of each, whatever the backlog.
SELECT w.route, d.event_id FROM unnest($1::integer[]) AS w(route)
CROSS JOIN LATERAL (SELECT d.event_id FROM eventhub.deliveries d WHERE d.state = 0 AND d.route = w.route
                    ORDER BY d.event_id LIMIT $2) d;

-- name: ready_types
-- The oldest that is ready of each route; and the routes of which something is leased, for which as many are looked at as
-- there are open claims.
WITH leased AS MATERIALIZED (SELECT d.route FROM eventhub.deliveries d WHERE d.state = 1 ORDER BY d.due)
SELECT w.route, d.event_id FROM unnest($1::integer[]) AS w(route)
CROSS JOIN LATERAL (SELECT d.event_id FROM eventhub.deliveries d WHERE d.state = 0 AND d.route = w.route
                    ORDER BY d.event_id LIMIT 1) d
UNION ALL
SELECT DISTINCT h.route, NULL::bigint FROM leased h WHERE h.route = ANY ($1);

-- name: newest_id
SELECT last_value FROM eventhub.ids;

-- name: claim_ids
-- Chosen deliveries, those of them that are ready. An event of a bus belongs to the bus that claims it.
WITH pick AS MATERIALIZED (
  SELECT p.tid FROM unnest((SELECT $1::bigint[])) AS w(id)
  CROSS JOIN LATERAL (SELECT d.ctid AS tid FROM eventhub.deliveries d WHERE d.id = w.id AND d.state + 0 = 0
                      LIMIT 1 FOR UPDATE SKIP LOCKED) p),
taken AS (
  UPDATE eventhub.deliveries SET state = 1, fence = greatest(fence, $5) + 1, attempts = attempts + 1, worker = $2,
         due = coalesce($4, now()) + $3::interval, owner = CASE WHEN handlers IS NOT NULL THEN $2 END,
         claimed_by = NULL
  WHERE ctid = ANY (ARRAY (SELECT tid FROM pick))
  RETURNING id, event_id, route, fence, attempts, failures, lane, max_attempts, due),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
  SELECT event_id, id, 'PICKED', $2, attempts, fence, coalesce($4, now()) FROM taken)
SELECT t.id, t.fence, t.attempts, t.failures, t.lane, t.max_attempts, e.type, e.payload, e.metadata, e.tags, e.title,
       e.description, e.ordering_key, e.idempotency_key, e.created_at, t.event_id, r.queue, t.due
FROM taken t JOIN eventhub.events e ON e.id = t.event_id JOIN eventhub.routes r ON r.id = t.route ORDER BY t.event_id;

-- name: extend
-- Only the current claim can lengthen its lease, and a lease that has ended may still be saved if nobody took it.
-- It never becomes shorter: whoever was promised an hour keeps it.
WITH hit AS MATERIALIZED (
  SELECT d.tid FROM unnest((SELECT $1::bigint[]), $2::integer[]) AS w(id, fence)
  CROSS JOIN LATERAL (SELECT ctid AS tid FROM eventhub.deliveries
                      WHERE id = w.id AND fence = w.fence AND state + 0 = 1 LIMIT 1 FOR UPDATE) d)
UPDATE eventhub.deliveries SET due = greatest(due, coalesce($4, now()) + $3::interval)
WHERE ctid = ANY (ARRAY (SELECT tid FROM hit)) RETURNING id;

-- name: start
-- As extend, and the log says that the work has begun.
WITH hit AS MATERIALIZED (
  SELECT d.tid FROM unnest((SELECT $1::bigint[]), $2::integer[]) AS w(id, fence)
  CROSS JOIN LATERAL (SELECT ctid AS tid FROM eventhub.deliveries
                      WHERE id = w.id AND fence = w.fence AND state + 0 = 1 LIMIT 1 FOR UPDATE) d),
started AS (
  UPDATE eventhub.deliveries SET due = greatest(due, coalesce($4, now()) + $3::interval)
  WHERE ctid = ANY (ARRAY (SELECT tid FROM hit)) RETURNING id, event_id, worker, attempts, fence),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
  SELECT event_id, id, 'STARTED', worker, attempts, fence, coalesce($4, now()) FROM started)
SELECT id FROM started;
