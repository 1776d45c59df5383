-- name: take_ids
-- Ids in advance, for events whose keys must be taken first. Nobody has ids before a transaction number: the fan-out
-- knows by these numbers which ids may still come.
SELECT nextval('eventhub.ids') FROM generate_series(1, $1) WHERE pg_current_xact_id() IS NOT NULL;

-- name: intern_route
-- Routes are few: those that are new or come back, then the number is cached. Never inside a caller's transaction. One at a
-- time, so that changes are committed in the order of their numbers and whoever saw one has not missed a lower one.
WITH alone AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtext('eventhub.routes'))),
wanted AS MATERIALIZED (
  SELECT w.queue, w.tags, w.priority, w.type
  FROM alone, unnest($1::text[], $2::text[], $3::integer[], $4::text[]) AS w(queue, tags, priority, type)),
back AS (
  UPDATE eventhub.routes r SET retired = false, changed = nextval('eventhub.route_changes'), changed_at = now()
  FROM wanted w
  WHERE eventhub.route_digest(r.queue, r.tags, r.priority, r.type)
        = eventhub.route_digest(w.queue, w.tags, w.priority, w.type) AND r.retired)
INSERT INTO eventhub.routes (queue, tags, priority, type)
SELECT queue, tags, priority, type FROM wanted ON CONFLICT DO NOTHING;

-- name: find_route
-- Those of many that there are, by their place in the question.
SELECT w.n, r.id
FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[]) WITH ORDINALITY AS w(queue, tags, priority, type, n)
CROSS JOIN LATERAL (SELECT f.id FROM eventhub.routes f
                    WHERE eventhub.route_digest(f.queue, f.tags, f.priority, f.type)
                          = eventhub.route_digest(w.queue, w.tags, w.priority, w.type) AND NOT f.retired LIMIT 1) r;

-- name: new_routes
-- What has changed since the last look: those that a worker's tags and types allow are chosen from memory. Who knows
-- nothing yet need not hear of those that are retired.
SELECT id, queue, tags, priority, type, retired, changed FROM eventhub.routes
WHERE changed > $1 AND ($1 > 0 OR NOT retired) ORDER BY changed;

-- name: idle_routes
-- Routes by type behind the number $1 of which nothing is ready or held back, nor anything younger than $2: locked, so that
-- nobody publishes on them. Whoever does just now is left alone.
SELECT r.id FROM eventhub.routes r
WHERE r.id > $1 AND NOT r.retired AND r.type <> '' AND r.changed_at < now() - $2::interval
  AND (SELECT 1 FROM eventhub.deliveries d WHERE d.state = 0 AND d.route = r.id ORDER BY d.event_id LIMIT 1) IS NULL
  AND (SELECT 1 FROM eventhub.deliveries d WHERE d.state IN (2, 3) AND d.subscriber IS NULL AND d.route = r.id
       ORDER BY d.event_id LIMIT 1) IS NULL
  AND coalesce((SELECT e.created_at FROM eventhub.events e WHERE e.route = r.id AND e.type = r.type
                ORDER BY e.id DESC NULLS LAST LIMIT 1) < now() - $2::interval, true)
ORDER BY r.id LIMIT $3 FOR UPDATE SKIP LOCKED;

-- name: alone_with_routes
-- Whoever makes routes, or brings them back, is not waited for.
SELECT pg_try_advisory_xact_lock(hashtext('eventhub.routes'));

-- name: retire_routes
-- Of those that are locked the ones of which nothing at all is open. A statement of its own, after the locks: whoever
-- published on one before it was locked has committed, and is seen.
UPDATE eventhub.routes r SET retired = true, changed = nextval('eventhub.route_changes'), changed_at = now()
WHERE r.id = ANY ($1::integer[])
  AND (SELECT 1 FROM eventhub.deliveries d WHERE d.state = 0 AND d.route = r.id ORDER BY d.event_id LIMIT 1) IS NULL
  AND (SELECT 1 FROM eventhub.deliveries d WHERE d.state IN (2, 3) AND d.subscriber IS NULL AND d.route = r.id
       ORDER BY d.event_id LIMIT 1) IS NULL
  AND r.id <> ALL (ARRAY (SELECT d.route FROM eventhub.deliveries d WHERE d.state = 1))
  AND r.id <> ALL (ARRAY (SELECT d.route FROM eventhub.deliveries d
                          WHERE d.subscriber IS NULL AND d.lane IS NOT NULL AND d.state <> 2 AND d.state = 4))
RETURNING r.id;

-- name: share_routes
-- For a caller's own transaction: nobody retires these before its end. It waits for nobody and keeps no lock on a route that
-- is being retired, for it may have to wait for whoever makes that known anew.
SELECT id FROM eventhub.routes WHERE id = ANY ($1::integer[]) AND NOT retired FOR SHARE SKIP LOCKED;

-- name: stray_routes
-- Routes that are retired although something of them is open: a program of an older version publishes on what it remembers,
-- and a transaction with an old snapshot cannot see that its route is gone.
SELECT r.id, r.queue, r.tags, r.priority, r.type FROM eventhub.routes r
WHERE r.retired AND r.queue <> 'hub'
  AND ((SELECT 1 FROM eventhub.deliveries d WHERE d.state = 0 AND d.route = r.id ORDER BY d.event_id LIMIT 1) IS NOT NULL
       OR (SELECT 1 FROM eventhub.deliveries d WHERE d.state IN (2, 3) AND d.subscriber IS NULL AND d.route = r.id
           ORDER BY d.event_id LIMIT 1) IS NOT NULL)
ORDER BY r.id LIMIT $1;

-- name: stray_work
-- What is open on a route without a type, oldest first.
SELECT w.id, e.type
FROM ((SELECT d.id, d.event_id FROM eventhub.deliveries d WHERE d.state = 0 AND d.route = $1 ORDER BY d.event_id LIMIT $2)
      UNION ALL
      (SELECT d.id, d.event_id FROM eventhub.deliveries d WHERE d.state IN (2, 3) AND d.subscriber IS NULL AND d.route = $1
       ORDER BY d.event_id LIMIT $2)) w
JOIN eventhub.events e ON e.id = w.event_id;

-- name: move_work
-- From one route ($3) to those of its types.
WITH moved AS (
  UPDATE eventhub.deliveries d SET route = w.route FROM unnest($1::bigint[], $2::integer[]) AS w(id, route)
  WHERE d.id = w.id AND d.route = $3 RETURNING d.event_id, d.route),
told AS (UPDATE eventhub.events e SET route = m.route FROM moved m WHERE e.id = m.event_id)
SELECT route, event_id FROM moved;

-- name: drop_routes
-- Routes that have been retired for $1, and that nothing at all names any more.
DELETE FROM eventhub.routes WHERE id = ANY (ARRAY (
  SELECT r.id FROM eventhub.routes r
  WHERE r.retired AND r.changed_at < now() - $1::interval
    AND (SELECT 1 FROM eventhub.events e WHERE e.route = r.id ORDER BY e.type, e.id NULLS FIRST LIMIT 1) IS NULL
    AND r.id NOT IN (SELECT l.route FROM eventhub.dead_letters l)
  ORDER BY r.changed_at LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id;

-- name: return_routes
-- Routes of dead letters that got a fresh start; in order with all other changes.
WITH alone AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtext('eventhub.routes')))
UPDATE eventhub.routes r SET retired = false, changed = nextval('eventhub.route_changes'), changed_at = now()
FROM alone WHERE r.id = ANY ($1::integer[]) AND r.retired;

-- name: hold_routes
-- Nobody retires these before the commit; whoever does just now is waited for. Returns whether one was.
SELECT id, retired FROM eventhub.routes WHERE id = ANY ($1::integer[]) ORDER BY id FOR SHARE;

-- name: take_keys
-- Racing duplicates: exactly one insert of a key wins, the others wait for it. In order, so that none wait in a circle.
INSERT INTO eventhub.idempotency_keys (scope, key, event_id, created_at, asked)
SELECT k.scope, k.key, k.event_id, coalesce($5, now()), k.asked
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[]) AS k(scope, key, event_id, asked) ORDER BY k.scope, k.key
ON CONFLICT DO NOTHING;

-- name: taken_keys
-- Which of them were won; asked only when not all were.
SELECT k.scope, k.key FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w(scope, key, event_id)
JOIN eventhub.idempotency_keys k ON k.scope = w.scope AND k.key = w.key AND k.event_id = w.event_id;

-- name: keyed_events
-- The first events of keys that were taken before, to compare with what is being published again. A key may outlive its
-- event.
SELECT k.scope, k.key, k.asked, k.event_id, e.type, e.payload, e.metadata, e.tags, e.title, e.description,
       e.ordering_key, k.created_at
FROM unnest($1::text[], $2::text[]) AS w(scope, key)
JOIN eventhub.idempotency_keys k ON k.scope = w.scope AND k.key = w.key
LEFT JOIN eventhub.events e ON e.id = k.event_id;

-- name: drop_keys
-- Keys that were taken for an event that is not stored after all.
DELETE FROM eventhub.idempotency_keys WHERE (scope, key) IN (SELECT * FROM unnest($1::text[], $2::text[]));

-- name: lock_lanes
-- Make the ordering keys known and lock them, in order: who holds the lock decides who is behind whom. One that is there
-- is locked without a new version of its row, of which an old snapshot would keep all; those that are new come back. With
-- $4 something older is to return to them.
INSERT INTO eventhub.lanes AS known (id, consumer, key, returned)
SELECT w.id, w.consumer, w.key, $4 FROM unnest($1::bigint[], $2::text[], $3::text[]) AS w(id, consumer, key) ORDER BY w.id
ON CONFLICT (id) DO UPDATE SET returned = true WHERE $4::boolean AND NOT known.returned
RETURNING id;

-- name: hold_keys
-- Whoever broadcasts under a key waits here for those who did before and have not committed, so that the ids of a key are
-- committed in their order. Given in order, so that none wait in a circle. Locks are a scarce thing: who has very many
-- keys takes them all at once instead.
SELECT pg_advisory_xact_lock_shared(hashtext('eventhub.keys')), NULL
UNION ALL
SELECT NULL, pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k;

-- name: hold_all_keys
SELECT pg_advisory_xact_lock(hashtext('eventhub.keys'));

-- name: taken_lanes
-- Which of these keys have a head already: their new deliveries go behind it. A statement of its own, after the lock. A
-- head is nearly always the last that its key has had: those before it have gone, but an old snapshot keeps their entries.
SELECT w.lane FROM unnest((SELECT $1::bigint[])) AS w(lane)
CROSS JOIN LATERAL (SELECT 1 FROM eventhub.deliveries h
                    WHERE h.lane >= w.lane AND h.lane <= w.lane AND h.lane IS NOT NULL AND h.state <> 2
                    ORDER BY h.lane DESC, h.id DESC LIMIT 1) head;

-- name: insert_events
-- Event, delivery and log rows of a whole batch in one round trip. A column that is empty throughout is passed as NULL.
-- state: 0 ready, 1 leased to its publisher, 2 behind, 3 due later, NULL: no delivery; then nobody wants it, or it is
-- broadcast, which leaves a marker for the fan-out.
-- Here and below, the routes in use are locked: nobody retires them before the commit. If one was retired since it was
-- learnt, nothing is stored and nothing comes back.
WITH used AS MATERIALIZED (
  SELECT id FROM eventhub.routes WHERE id = ANY ((SELECT $24::integer[])::integer[]) AND NOT retired FOR SHARE),
input AS MATERIALIZED (
  SELECT coalesce(u.id, nextval('eventhub.ids')) AS id, u.n, u.route, u.type, u.payload, u.metadata, u.tags, u.title,
         u.description, u.ordering_key, u.idempotency_key, u.lane, u.max_attempts, u.worker, u.parks, u.broadcast, u.targets,
         u.published_by, u.handlers, u.owner, t.now,
         CASE WHEN u.state = 3 AND coalesce(u.due, t.now + u.seconds * interval '1 second') <= t.now THEN 0
              ELSE u.state END AS state,
         coalesce(u.due, t.now + u.seconds * interval '1 second') AS due, u.due AS deliver_at
  FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
              $9::text[], $10::text[], $11::bigint[], $12::smallint[], $13::timestamptz[], $14::float8[],
              $15::integer[], $16::text[], $17::boolean[], $19::boolean[], $20::text[], $21::text[],
              $22::text[], $23::text[])
       WITH ORDINALITY AS u(id, route, type, payload, metadata, tags, title, description, ordering_key,
                            idempotency_key, lane, state, due, seconds, max_attempts, worker, parks, broadcast, targets,
                            published_by, handlers, owner, n)
  CROSS JOIN (SELECT coalesce($18, now()) AS now) t
  WHERE pg_current_xact_id() IS NOT NULL -- first, as in take_ids
    AND (SELECT count(*) FROM used) = cardinality($24)),
stored AS (
  INSERT INTO eventhub.events (id, route, type, payload, metadata, tags, title, description, ordering_key,
                               idempotency_key, created_at, published_by, deliver_at)
  SELECT id, route, type, payload::json, metadata, tags, title, description, ordering_key, idempotency_key, now,
         published_by, deliver_at
  FROM input),
placed AS (
  INSERT INTO eventhub.deliveries (id, event_id, lane, route, state, due, fence, attempts, failures, max_attempts, worker,
                                   parks, handlers, owner)
  SELECT id, id, lane, route, state, CASE WHEN state = 1 OR due > now THEN due END, (state = 1)::integer,
         (state = 1)::integer, 0, max_attempts, worker, coalesce(parks, false), handlers, owner
  FROM input WHERE state IS NOT NULL),
marked AS (
  INSERT INTO eventhub.fanout (event_id, due, targets, alone)
  SELECT id, CASE WHEN due > now THEN due END, targets, state IS NULL FROM input WHERE broadcast),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
  SELECT id, id, 'PUBLISHED', NULL, NULL, NULL, now FROM input
  UNION ALL
  SELECT id, id, CASE state WHEN 1 THEN 'PICKED' ELSE 'COMPLETED' END, worker, coalesce(state, 0), state, now
  FROM input WHERE state = 1 OR (state IS NULL AND broadcast IS NOT TRUE))
SELECT id, now FROM input ORDER BY n;

-- name: insert_plain
-- As insert_events, for events that are a type and a payload and ready for any worker, which most are. The payloads come
-- as the lines of one text, for JSON as we write it has no line feed in it, and an array of one element stands for all
-- rows alike. The number of the transaction is asked for once, where the column's default would turn it into a text and
-- back for every row: 7 % of the whole. The answer is one row: the time, and the ids in the order of the events. The queues
-- in $6 hear of it with the commit. $7 are the routes, each once.
WITH used AS MATERIALIZED (
  SELECT id FROM eventhub.routes WHERE id = ANY ((SELECT $7::integer[])::integer[]) AND NOT retired FOR SHARE),
input AS MATERIALIZED (
  SELECT nextval('eventhub.ids') AS id, CASE cardinality($1) WHEN 1 THEN $1[1] ELSE u.route END AS route,
         CASE cardinality($2) WHEN 1 THEN $2[1] ELSE u.type END AS type, u.payload::json AS payload,
         CASE cardinality($4) WHEN 1 THEN $4[1] ELSE u.max_attempts END AS max_attempts
  FROM unnest($1::integer[], $2::text[], string_to_array($3, E'\n'), $4::integer[])
       AS u(route, type, payload, max_attempts)
  WHERE pg_current_xact_id() IS NOT NULL -- first, as in take_ids
    AND (SELECT count(*) FROM used) = cardinality($7)),
stored AS (
  INSERT INTO eventhub.events (id, route, type, payload, created_at, xid)
  SELECT id, route, type, payload, coalesce($5, now()), (SELECT pg_current_xact_id()::text::bigint) FROM input),
placed AS (
  INSERT INTO eventhub.deliveries (id, event_id, route, state, fence, attempts, failures, max_attempts)
  SELECT id, id, route, 0, 0, 0, 0, max_attempts FROM input),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, created_at, xid)
  SELECT id, id, 'PUBLISHED', coalesce($5, now()), (SELECT pg_current_xact_id()::text::bigint) FROM input)
SELECT coalesce($5, now()), array_agg(id), (SELECT count(pg_notify('eventhub', q)) FROM unnest($6::text[]) AS q) FROM input;

-- name: insert_one
-- As insert_plain, for a single event: without arrays and what is made of them it takes a tenth less until it is
-- committed. The queue in $6 hears of it.
WITH used AS MATERIALIZED (SELECT id FROM eventhub.routes WHERE id = $1 AND NOT retired FOR SHARE),
stored AS (
  INSERT INTO eventhub.events (id, route, type, payload, created_at, xid)
  SELECT nextval('eventhub.ids'), id, $2, $3::text::json, coalesce($5, now()), pg_current_xact_id()::text::bigint
  FROM used WHERE pg_current_xact_id() IS NOT NULL -- first, as in take_ids
  RETURNING id, created_at, xid),
placed AS (
  INSERT INTO eventhub.deliveries (id, event_id, route, state, fence, attempts, failures, max_attempts)
  SELECT id, id, $1, 0, 0, 0, 0, $4 FROM stored),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, created_at, xid)
  SELECT id, id, 'PUBLISHED', created_at, xid FROM stored)
SELECT id, created_at, CASE WHEN $6::text IS NOT NULL THEN pg_notify('eventhub', $6) END FROM stored;

-- name: lay_out
-- As insert_plain, for events of one type on one route whose payloads are still on their way: all that can be said without
-- them. The ids are told twice: for the caller, and as the text that fill_in takes.
WITH used AS MATERIALIZED (SELECT id FROM eventhub.routes WHERE id = $2 AND NOT retired FOR SHARE),
input AS MATERIALIZED (
  SELECT nextval('eventhub.ids') AS id FROM generate_series(1, (SELECT $1::integer)) -- as is told in 2_claim.sql
  WHERE pg_current_xact_id() IS NOT NULL AND (SELECT count(*) FROM used) = 1),
placed AS (
  INSERT INTO eventhub.deliveries (id, event_id, route, state, fence, attempts, failures, max_attempts)
  SELECT id, id, $2, 0, 0, 0, 0, $3 FROM input),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, created_at, xid)
  SELECT id, id, 'PUBLISHED', coalesce($4, now()), (SELECT pg_current_xact_id()::text::bigint) FROM input)
SELECT coalesce($4, now()), array_agg(id), array_agg(id)::text FROM input;

-- name: fill_in
-- The events of deliveries that were laid out before, in the same transaction.
WITH stored AS (
  INSERT INTO eventhub.events (id, route, type, payload, created_at, xid)
  SELECT u.id, $2, $3, u.payload::json, coalesce($5, now()), (SELECT pg_current_xact_id()::text::bigint)
  FROM unnest($1::text::bigint[], string_to_array($4, E'\n')) AS u(id, payload))
SELECT count(pg_notify('eventhub', q)) FROM unnest($6::text[]) AS q;
