-- name: hub_id
SELECT value FROM eventhub.meta WHERE key = 'hub';

-- name: subscribers_version
SELECT value::bigint FROM eventhub.meta WHERE key = 'subscribers';

-- name: subscriber_changes
-- Of what they want and of how they are, together.
SELECT sum(value::bigint)::bigint FROM eventhub.meta WHERE key IN ('subscribers', 'subscriber_states');

-- name: touch_subscribers
-- In the transaction of every change: whoever remembers subscribers sees that they are not what they were.
UPDATE eventhub.meta SET value = (value::bigint + 1)::text WHERE key = 'subscribers';

-- name: touch_states
UPDATE eventhub.meta SET value = (value::bigint + 1)::text WHERE key = 'subscriber_states';

-- name: subscribers
SELECT id, name, document, sealed, status, reason, circuit, circuit_until, circuit_opens, version, created_at, updated_at
FROM eventhub.subscribers ORDER BY name;

-- name: subscriber
SELECT id, name, document, sealed, status, reason, circuit, circuit_until, circuit_opens, version, created_at, updated_at
FROM eventhub.subscribers WHERE id = $1;

-- name: add_subscriber
INSERT INTO eventhub.subscribers (id, name, document, sealed, status, reason, created_at, updated_at)
VALUES ($1, $2, $3::text::json, $4, $5, $6, $7, $8) ON CONFLICT (name) DO NOTHING RETURNING id;

-- name: name_owner
SELECT id FROM eventhub.subscribers WHERE name = $1;

-- name: change_subscriber
-- Only what its editor has seen is replaced.
UPDATE eventhub.subscribers
SET name = $3, document = $4::text::json, sealed = $5, version = version + 1, updated_at = coalesce($6, now())
WHERE id = $1 AND version = $2
  AND NOT EXISTS (SELECT 1 FROM eventhub.subscribers o WHERE o.name = $3 AND o.id <> $1) RETURNING id;

-- name: limit_messages
-- A new limit holds for what waits already, too; who may be sent something once only must not get it twice.
UPDATE eventhub.deliveries SET max_attempts = $2 WHERE subscriber = $1 AND max_attempts IS DISTINCT FROM $2;

-- name: hold_subscriber_changes
-- One change at a time: what is then asked about names and versions stays true until it is done.
SELECT value FROM eventhub.meta WHERE key = 'subscribers' FOR UPDATE;

-- name: set_status
-- A new beginning: the circuit is closed, too.
UPDATE eventhub.subscribers
SET status = $2, reason = $3, circuit = 'closed', circuit_until = NULL, circuit_opens = 0, version = version + 1,
    updated_at = coalesce($5, now())
WHERE id = $1 AND status <> $2 AND ($4::text[] IS NULL OR status = ANY ($4)) RETURNING id;

-- name: open_circuit
-- The first who says so opens it.
UPDATE eventhub.subscribers
SET circuit = 'open', circuit_until = coalesce($3, now()) + $2::interval, circuit_opens = circuit_opens + 1
WHERE id = $1 AND circuit = 'closed' RETURNING id;

-- name: take_probes
-- Of all who would try, one may; the others see a later time. Whoever is being tried by another at this moment is left
-- to it.
WITH due AS MATERIALIZED (
  SELECT s.id, w.rest FROM unnest($1::bigint[], $2::interval[]) AS w(id, rest)
  JOIN eventhub.subscribers s ON s.id = w.id AND s.circuit = 'open' AND s.circuit_until <= coalesce($3, now())
  ORDER BY s.id FOR UPDATE OF s SKIP LOCKED)
UPDATE eventhub.subscribers s SET circuit_until = coalesce($3, now()) + d.rest, circuit_opens = s.circuit_opens + 1
FROM due d WHERE s.id = d.id RETURNING s.id;

-- name: close_circuit
UPDATE eventhub.subscribers SET circuit = 'closed', circuit_until = NULL, circuit_opens = 0
WHERE id = $1 AND circuit = 'open' RETURNING id;

-- name: remove_subscriber
DELETE FROM eventhub.subscribers WHERE id = $1 RETURNING id;

-- name: wait_for_fanout
-- Who takes a subscriber away must not do so while messages are being made for it.
SELECT pg_advisory_xact_lock(hashtext('eventhub.fanout'));

-- name: messages_of
-- Some of the messages of a subscriber, with their ordering keys.
SELECT id, lane FROM eventhub.deliveries WHERE subscriber = $1 ORDER BY id LIMIT $2;

-- name: ownerless
-- Subscribers that are gone, and have messages all the same: whoever removed them did not come to the end of it.
SELECT DISTINCT d.subscriber FROM eventhub.deliveries d
WHERE d.subscriber IS NOT NULL AND NOT EXISTS (SELECT 1 FROM eventhub.subscribers s WHERE s.id = d.subscriber);

-- name: log_cancelled
-- Who does not want an open message to be sent, in the place of the word that it is dead.
INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, subscriber, created_at)
SELECT event_id, id, 'CANCELLED', $2, attempts, fence, subscriber, coalesce($3, now()) FROM eventhub.deliveries WHERE id = $1;

-- name: cancel_messages
-- Whoever holds them. The parked are dead already.
WITH gone AS (
  DELETE FROM eventhub.deliveries WHERE id = ANY ($1::bigint[])
  RETURNING id, event_id, state, attempts, fence, worker, subscriber),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, subscriber, created_at)
  SELECT event_id, id, 'CANCELLED', $2, attempts, fence, subscriber, coalesce($3, now()) FROM gone WHERE state <> 4 ORDER BY id)
SELECT count(*) FILTER (WHERE state <> 4) FROM gone;

-- name: hold_fanout
-- One fan-out at a time, so that a key's messages are in the order of their events; a crash frees it by itself.
SELECT pg_try_advisory_xact_lock(hashtext('eventhub.fanout'));

-- name: payloads
-- Those of some events.
SELECT id, payload FROM eventhub.events WHERE id = ANY ($1::bigint[]);

-- name: markers
-- The oldest, from the floor ($3) on: below it lie entries of markers that are gone, which an old snapshot keeps. With $2
-- they tell how large their payloads are, as they are stored. Also which transaction was the oldest that ran when we
-- looked.
SELECT f.event_id, e.type, e.ordering_key, e.metadata, CASE WHEN $2::boolean THEN pg_column_size(e.payload) END, f.targets,
       f.alone, f.due, pg_snapshot_xmin(pg_current_snapshot())::text::bigint
FROM (SELECT * FROM eventhub.fanout WHERE event_id >= $3 ORDER BY event_id LIMIT $1) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.events v WHERE v.id = f.event_id OFFSET 0) e ORDER BY f.event_id;

-- name: fanout_moment
-- After the markers were read: are the subscribers still those of the plan, and a transaction number that is higher than
-- those of all who had taken ids by then.
SELECT value::bigint, pg_current_xact_id()::text::bigint FROM eventhub.meta WHERE key = 'subscribers';

-- name: insert_messages
-- The messages of a round, with ids in their order; their markers go in the same statement. An event that nobody works on
-- and nobody has subscribed to ($11) is complete.
WITH input AS MATERIALIZED (
  SELECT nextval('eventhub.ids') AS id, u.*, t.now
  FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::bigint[], $5::text[], $6::smallint[], $7::boolean[],
              $8::integer[], $9::timestamptz[])
       WITH ORDINALITY AS u(event_id, subscriber, route, lane, key, state, parks, max_attempts, due, n)
  CROSS JOIN (SELECT coalesce($12, now()) AS now) t),
placed AS (
  INSERT INTO eventhub.deliveries (id, event_id, subscriber, lane, key, route, state, due, fence, attempts, failures,
                                   max_attempts, parks)
  SELECT id, event_id, subscriber, lane, key, route, CASE WHEN state = 0 AND due > now THEN 3 ELSE state END,
         CASE WHEN due > now THEN due END, 0, 0, 0, max_attempts, parks
  FROM input),
gone AS (DELETE FROM eventhub.fanout WHERE event_id = ANY ($10::bigint[]))
INSERT INTO eventhub.event_log (event_id, delivery_id, action, attempt, created_at)
SELECT w.id, w.id, 'COMPLETED', 0, coalesce($12, now()) FROM unnest($11::bigint[]) AS w(id);

-- name: fanout_waiting
SELECT (SELECT count(*) FROM (SELECT 1 FROM eventhub.fanout LIMIT $1) m),
       (SELECT extract(epoch FROM now() - e.created_at)::float8 FROM eventhub.events e
        WHERE e.id = (SELECT min(event_id) FROM eventhub.fanout));

-- name: claim_messages
-- For each subscriber the oldest that wait for their first attempt and the oldest retries, merged so that the retries get
-- one place in $9 while both wait. Both are locked where they are found, so that several dispatchers never look at the same.
-- Nothing is taken for a subscriber that was paused since the dispatcher looked.
WITH wanted AS MATERIALIZED (
  SELECT w.* FROM unnest($1::integer[], $2::integer[], $3::integer[], $4::bigint[], $5::bigint[], $11::bigint[])
    WITH ORDINALITY AS w(fresh, again, most, fresh_floor, again_floor, subscriber, n)
  JOIN eventhub.subscribers s ON s.id = w.subscriber AND s.status = 'active'),
found AS MATERIALIZED (
  SELECT w.n AS owner, w.most, d.tid, row_number() OVER (PARTITION BY w.fresh ORDER BY d.event_id)::float8 AS turn
  FROM wanted w
  CROSS JOIN LATERAL (SELECT ctid AS tid, event_id FROM eventhub.deliveries
                      WHERE state = 0 AND route = w.fresh AND event_id >= w.fresh_floor
                      ORDER BY event_id LIMIT w.most FOR UPDATE SKIP LOCKED) d
  UNION ALL
  SELECT w.n, w.most, d.tid, (row_number() OVER (PARTITION BY w.fresh ORDER BY d.event_id) - $6::float8) * $9::float8
  FROM wanted w
  CROSS JOIN LATERAL (SELECT ctid AS tid, event_id FROM eventhub.deliveries
                      WHERE state = 0 AND route = w.again AND event_id >= w.again_floor
                      ORDER BY event_id LIMIT w.most FOR UPDATE SKIP LOCKED) d),
pick AS MATERIALIZED (
  SELECT p.tid
  FROM (SELECT tid, owner, most, row_number() OVER (PARTITION BY owner ORDER BY turn) AS place FROM found) p
  WHERE p.place <= p.most ORDER BY p.place, p.owner LIMIT $12),
taken AS (
  UPDATE eventhub.deliveries SET state = 1, fence = greatest(fence, $13) + 1, attempts = attempts + 1, worker = $7,
         due = coalesce($10, now()) + $8::interval
  WHERE ctid = ANY (ARRAY (SELECT tid FROM pick))
  RETURNING id, event_id, subscriber, route, fence, attempts, failures, lane, key, max_attempts),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, subscriber, created_at)
  SELECT event_id, id, 'PICKED', $7, attempts, fence, subscriber, coalesce($10, now()) FROM taken)
SELECT t.id, t.fence, t.lane, t.subscriber, t.event_id, e.type, e.payload, e.metadata, coalesce(t.key, e.ordering_key),
       e.created_at, t.attempts, t.failures, t.max_attempts, coalesce($10, now()), t.route
FROM taken t JOIN eventhub.events e ON e.id = t.event_id ORDER BY t.event_id;
