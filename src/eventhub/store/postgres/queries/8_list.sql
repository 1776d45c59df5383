-- name: routes
-- Routes are few: lists by queue and tags choose among them first, and then read only what is theirs. Those of
-- subscribers are left out: messages wait there, and no event has them.
SELECT id, tags FROM eventhub.routes
WHERE ($1::text IS NULL OR queue = $1) AND (queue <> 'hub' OR tags = '') AND ($2::text IS NULL OR type IN ('', $2));

-- name: events_recent
-- All events, or with $4 the completed ones: no delivery of theirs is open, to be made or given up. That is asked with
-- coalesce, as the planner believes that IS NULL is rare and would sort all events rather than walk to the end of the
-- page. In every list the ids of the page are found first and only they are told in full; OFFSET 0 makes that second
-- step a look-up for each.
SELECT s.* FROM (
  SELECT e.id FROM eventhub.events e
  WHERE e.id < $1
    AND (NOT $4::boolean OR (
      coalesce((SELECT false FROM eventhub.deliveries d WHERE d.id = e.id), true)
      AND coalesce((SELECT false FROM eventhub.dead_letters l
                    WHERE l.event_id = e.id AND l.retried_at IS NULL LIMIT 1), true)
      AND coalesce((SELECT false FROM eventhub.deliveries m
                    WHERE m.event_id = e.id AND m.subscriber IS NOT NULL LIMIT 1), true)
      AND coalesce((SELECT false FROM eventhub.fanout f WHERE f.event_id = e.id), true)))
  ORDER BY e.id DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_of_kinds
-- The newest of each type on each route, merged by id: of the type that is asked for, or of those that a route has, from
-- one to the next. None is followed below the floor ($7), which who asks lowers until the page is full: so a type of which
-- nothing fits is not walked to its end. Only the index by kind has ids with NULLS LAST from the newest on: by the primary
-- key, which the planner would take for a common kind, a rare one would be looked for among all events. And OFFSET 0 keeps
-- the planner from knowing how few ids lie between the two bounds, or it would look through all of them for each kind.
WITH RECURSIVE kinds (route, type) AS (
  SELECT w.route, coalesce($6::text, (SELECT CASE e.route WHEN w.route THEN e.type END FROM eventhub.events e
                                      WHERE e.route >= w.route ORDER BY e.route, e.type LIMIT 1))
  FROM unnest($5::integer[]) AS w(route)
  UNION ALL
  SELECT k.route, (SELECT CASE e.route WHEN k.route THEN e.type END FROM eventhub.events e
                   WHERE (e.route, e.type) > (k.route, k.type) ORDER BY e.route, e.type LIMIT 1)
  FROM kinds k WHERE $6::text IS NULL AND k.type IS NOT NULL)
SELECT s.* FROM (
  SELECT c.id FROM (SELECT route, type, $7::bigint AS floor, $1::bigint AS before FROM kinds OFFSET 0) k
  CROSS JOIN LATERAL (
    SELECT e.id FROM eventhub.events e
    WHERE e.route = k.route AND e.type = k.type AND e.id >= k.floor AND e.id < k.before
      AND (NOT $4::boolean OR (
        coalesce((SELECT false FROM eventhub.deliveries d WHERE d.id = e.id), true)
        AND coalesce((SELECT false FROM eventhub.dead_letters l
                      WHERE l.event_id = e.id AND l.retried_at IS NULL LIMIT 1), true)
        AND coalesce((SELECT false FROM eventhub.deliveries m
                      WHERE m.event_id = e.id AND m.subscriber IS NOT NULL LIMIT 1), true)
        AND coalesce((SELECT false FROM eventhub.fanout f WHERE f.event_id = e.id), true)))
    ORDER BY e.id DESC NULLS LAST LIMIT $2::bigint + $3::bigint) c
  ORDER BY c.id DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_pending
-- The work that nobody holds, by its two indexes: the routes with the newest, and the newest of each. And the broadcasts,
-- from event to event that has messages or a marker; only what is held or parked is stepped over.
WITH RECURSIVE walk (id, pending, found) AS (
  SELECT $1::bigint, false, 0
  UNION ALL
  SELECT n.id, n.pending, w.found + n.pending::integer
  FROM walk w
  CROSS JOIN LATERAL (
    SELECT o.id, (SELECT s.status = 'PENDING' FROM eventhub.event_statuses s WHERE s.id = o.id) IS TRUE AS pending
    FROM eventhub.broadcast_below(w.id) AS o(id) OFFSET 0) n
  WHERE w.found < $2::bigint + $3::bigint AND n.id IS NOT NULL),
head AS MATERIALIZED (
  SELECT w.route, (SELECT max(p.id) FROM eventhub.pending_work(w.route, $1, 1) AS p(id)) AS newest
  FROM (SELECT id AS route FROM eventhub.routes WHERE (queue <> 'hub' OR tags = '') AND NOT retired) w
  ORDER BY newest DESC NULLS LAST LIMIT $2::bigint + $3::bigint)
SELECT s.* FROM (
  SELECT p.id FROM head h CROSS JOIN LATERAL eventhub.pending_work(h.route, $1, $2::bigint + $3::bigint) AS p(id)
  UNION
  SELECT w.id FROM walk w WHERE w.pending
  ORDER BY 1 DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_pending_routed
-- The same for some routes: their broadcasts are found by walking those that are open and the events of each type that a
-- route has in turn, each from where the other has got to.
WITH RECURSIVE kinds (route, type) AS (
  SELECT w.route, (SELECT CASE e.route WHEN w.route THEN e.type END FROM eventhub.events e
                   WHERE e.route >= w.route ORDER BY e.route, e.type LIMIT 1)
  FROM unnest($4::integer[]) AS w(route)
  UNION ALL
  SELECT k.route, (SELECT CASE e.route WHEN k.route THEN e.type END FROM eventhub.events e
                   WHERE (e.route, e.type) > (k.route, k.type) ORDER BY e.route, e.type LIMIT 1)
  FROM kinds k WHERE k.type IS NOT NULL),
walk (route, type, below, hit, found) AS (
  SELECT k.route, k.type, $1::bigint, NULL::bigint, 0 FROM kinds k WHERE k.type IS NOT NULL
  UNION ALL
  SELECT w.route, w.type, CASE WHEN e.id = o.id THEN e.id ELSE e.id + 1 END, CASE WHEN p.pending THEN e.id END,
         w.found + p.pending::integer
  FROM walk w
  CROSS JOIN LATERAL eventhub.broadcast_below(w.below) AS o(id)
  CROSS JOIN LATERAL (SELECT e.id FROM eventhub.events e
                      WHERE e.route = w.route AND e.type = w.type AND e.id <= o.id
                      ORDER BY e.id DESC NULLS LAST LIMIT 1) e
  CROSS JOIN LATERAL (SELECT e.id = o.id AND (SELECT s.status = 'PENDING' FROM eventhub.event_statuses s
                                              WHERE s.id = o.id) AS pending OFFSET 0) p
  WHERE w.found < $2::bigint + $3::bigint),
head AS MATERIALIZED (
  SELECT w.route, (SELECT max(p.id) FROM eventhub.pending_work(w.route, $1, 1) AS p(id)) AS newest
  FROM unnest($4::integer[]) AS w(route)
  ORDER BY newest DESC NULLS LAST LIMIT $2::bigint + $3::bigint)
SELECT s.* FROM (
  SELECT p.id FROM head h CROSS JOIN LATERAL eventhub.pending_work(h.route, $1, $2::bigint + $3::bigint) AS p(id)
  UNION
  SELECT w.hit FROM walk w WHERE w.hit IS NOT NULL
  ORDER BY 1 DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_pending_typed
-- Both the events of a type and what is open can be millions, and have few in common. So two indexes are walked in turn,
-- each from where the other has got to: a run that only one of them has is jumped over. Three times on each route: with
-- the work that is ready (0), with the work that is held back (2), and with the broadcasts (9).
WITH RECURSIVE walk (kind, route, below, hit, found) AS (
  SELECT k.kind, w.route, $1::bigint, NULL::bigint, 0
  FROM unnest($4::integer[]) AS w(route) CROSS JOIN (VALUES (0), (2), (9)) AS k(kind)
  UNION ALL
  SELECT w.kind, w.route, CASE WHEN e.id = o.id THEN e.id ELSE e.id + 1 END, CASE WHEN p.pending THEN e.id END,
         w.found + p.pending::integer
  FROM walk w
  CROSS JOIN LATERAL (
    SELECT CASE w.kind
      WHEN 0 THEN (SELECT d.event_id FROM eventhub.deliveries d
                   WHERE d.state = 0 AND d.route = w.route AND d.event_id < w.below
                   ORDER BY d.event_id DESC LIMIT 1)
      WHEN 2 THEN (SELECT d.event_id FROM eventhub.deliveries d
                   WHERE d.state IN (2, 3) AND d.subscriber IS NULL AND d.route = w.route AND d.event_id < w.below
                   ORDER BY d.event_id DESC LIMIT 1)
      ELSE (SELECT b.id FROM eventhub.broadcast_below(w.below) AS b(id)) END AS id OFFSET 0) o
  CROSS JOIN LATERAL (SELECT e.id FROM eventhub.events e
                      WHERE e.route = w.route AND e.type = $5 AND e.id <= o.id
                      ORDER BY e.id DESC NULLS LAST LIMIT 1) e
  CROSS JOIN LATERAL (
    SELECT e.id = o.id AND CASE w.kind
      WHEN 9 THEN (SELECT s.status = 'PENDING' FROM eventhub.event_statuses s WHERE s.id = o.id)
      ELSE coalesce((SELECT false FROM eventhub.deliveries m WHERE m.event_id = o.id
                       AND m.subscriber IS NOT NULL AND m.state + 0 = 1 LIMIT 1), true) END AS pending OFFSET 0) p
  WHERE w.found < $2::bigint + $3::bigint)
SELECT s.* FROM (
  SELECT DISTINCT w.hit AS id FROM walk w WHERE w.hit IS NOT NULL ORDER BY w.hit DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_leased
-- Being worked on: as many as there are open claims, so they are looked through whatever the filter.
WITH leased AS MATERIALIZED (SELECT event_id FROM eventhub.deliveries WHERE state = 1 ORDER BY due)
SELECT s.* FROM (
  SELECT h.event_id AS id FROM (SELECT DISTINCT event_id FROM leased WHERE event_id < $1) h
  WHERE ($4::integer[] IS NULL OR (SELECT e.route FROM eventhub.events e WHERE e.id = h.event_id) = ANY ($4))
    AND ($5::text IS NULL OR (SELECT e.type FROM eventhub.events e WHERE e.id = h.event_id) = $5)
  ORDER BY h.event_id DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_dead
-- Given up: from event to event that has a dead letter, until enough of them have the status. A letter has its event's
-- type, that of work its route, too. An event of which something completed ends with errors, whatever its letters say,
-- but not where there never was a subscriber. The planner takes a CASE that is not null for common, and does not sort.
WITH RECURSIVE walk (id, fits, found) AS (
  SELECT $1::bigint, false, 0
  UNION ALL
  SELECT n.id, n.fits, w.found + n.fits::integer
  FROM walk w
  CROSS JOIN LATERAL (
    SELECT l.event_id AS id,
           (SELECT s.status = $6 FROM eventhub.event_statuses s WHERE s.id = l.event_id) IS TRUE
           AND ($4::integer[] IS NULL OR (SELECT e.route FROM eventhub.events e WHERE e.id = l.event_id) = ANY ($4)) AS fits
    FROM (SELECT l.event_id FROM eventhub.dead_letters l
          WHERE l.retried_at IS NULL AND l.event_id < w.id
            AND CASE WHEN ($5::text IS NULL OR l.type = $5)
                      AND ($4::integer[] IS NULL OR l.subscriber IS NOT NULL OR l.route = ANY ($4))
                      AND (l.status = $6 OR $6 <> 'FAILED' AND (SELECT value <> '0' FROM eventhub.meta
                                                                WHERE key = 'subscribers')) THEN true END IS NOT NULL
          ORDER BY l.event_id DESC, l.id DESC LIMIT 1) l OFFSET 0) n
  WHERE w.found < $2::bigint + $3::bigint)
SELECT s.* FROM (SELECT w.id FROM walk w WHERE w.fits ORDER BY w.id DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: count_recent
-- Completed ($1) is what is left when the unfinished are taken away, which need not be looked for one by one.
SELECT (SELECT count(*) FROM eventhub.events)
       - CASE WHEN $1::boolean THEN (SELECT count(*) FROM eventhub.unfinished) ELSE 0 END;

-- name: count_routed
SELECT (SELECT coalesce(sum(c.events), 0)::bigint FROM unnest($2::integer[]) AS w(route)
        CROSS JOIN LATERAL (SELECT count(*) AS events FROM eventhub.events e WHERE e.route = w.route) c)
       - CASE WHEN $1::boolean THEN (SELECT count(*) FROM eventhub.unfinished u WHERE u.route = ANY ($2)) ELSE 0 END;

-- name: count_typed
SELECT (SELECT coalesce(sum(c.events), 0)::bigint FROM unnest($2::integer[]) AS w(route)
        CROSS JOIN LATERAL (SELECT count(*) AS events FROM eventhub.events e
                            WHERE e.type = $3 AND e.route = w.route) c)
       - CASE WHEN $1::boolean THEN (SELECT count(*) FROM eventhub.unfinished u
                                     WHERE u.route = ANY ($2) AND u.type = $3) ELSE 0 END;

-- name: count_pending
SELECT count(*) FROM eventhub.open_events o
WHERE o.state <> 1 AND ($1::integer[] IS NULL OR o.route = ANY ($1)) AND ($2::text IS NULL OR o.type = $2);

-- name: count_leased
WITH leased AS MATERIALIZED (SELECT event_id FROM eventhub.deliveries WHERE state = 1 ORDER BY due)
SELECT count(*) FROM (SELECT DISTINCT event_id FROM leased) h
WHERE ($1::integer[] IS NULL OR (SELECT e.route FROM eventhub.events e WHERE e.id = h.event_id) = ANY ($1))
  AND ($2::text IS NULL OR (SELECT e.type FROM eventhub.events e WHERE e.id = h.event_id) = $2);

-- name: count_letters
SELECT count(*) FROM eventhub.dead_events d
WHERE d.status = $1 AND ($2::integer[] IS NULL OR d.route = ANY ($2)) AND ($3::text IS NULL OR d.type = $3);
