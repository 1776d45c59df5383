-- name: routes
-- Routes are few: lists by queue and tags choose among them first, and then read only what is theirs.
SELECT id, tags FROM eventhub.routes WHERE $1::text IS NULL OR queue = $1;

-- name: events_recent
-- All events, or with $4 the completed ones: neither open nor given up. That is asked with coalesce, as the planner
-- believes that IS NULL is rare and would sort all events rather than walk to the end of the page. In every list the
-- ids of the page are found first and only they are told in full; OFFSET 0 makes that second step a look-up for each.
SELECT s.* FROM (
  SELECT e.id FROM eventhub.events e
  WHERE e.id < $1
    AND (NOT $4::boolean OR (
      coalesce((SELECT false FROM eventhub.deliveries d WHERE d.id = e.id), true)
      AND coalesce((SELECT false FROM eventhub.dead_letters l
                   WHERE l.delivery_id = e.id AND l.retried_at IS NULL), true)))
  ORDER BY e.id DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_routed
-- The newest of each route, merged by id. Whole rows are compared, where e.route = w.route would do: so only the index
-- by route gives the order (by the primary key a rare route would be looked for among all events), and no statistics,
-- however old, make the planner believe that there is so little to read that it may as well be sorted.
SELECT s.* FROM (
  SELECT c.id FROM unnest($5::integer[]) AS w(route)
  CROSS JOIN LATERAL (
    SELECT e.id FROM eventhub.events e
    WHERE e.route >= w.route AND (e.route, e.id) < (w.route, $1)
      AND (NOT $4::boolean OR (
        coalesce((SELECT false FROM eventhub.deliveries d WHERE d.id = e.id), true)
        AND coalesce((SELECT false FROM eventhub.dead_letters l
                   WHERE l.delivery_id = e.id AND l.retried_at IS NULL), true)))
    ORDER BY e.route DESC, e.id DESC LIMIT $2::bigint + $3::bigint) c
  ORDER BY c.id DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_typed
-- The newest of a type on each route, merged by id: a list by type alone asks for all routes.
SELECT s.* FROM (
  SELECT c.id FROM (SELECT route, $6::text AS type FROM unnest($5::integer[]) AS r(route) OFFSET 0) w
  CROSS JOIN LATERAL (
    SELECT e.id FROM eventhub.events e
    WHERE (e.type, e.route) >= (w.type, w.route) AND (e.type, e.route, e.id) < (w.type, w.route, $1)
      AND (NOT $4::boolean OR (
        coalesce((SELECT false FROM eventhub.deliveries d WHERE d.id = e.id), true)
        AND coalesce((SELECT false FROM eventhub.dead_letters l
                   WHERE l.delivery_id = e.id AND l.retried_at IS NULL), true)))
    ORDER BY e.type DESC, e.route DESC, e.id DESC LIMIT $2::bigint + $3::bigint) c
  ORDER BY c.id DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_pending
-- The newest deliveries that nobody holds; only what is held or parked is stepped over.
SELECT s.* FROM (
  SELECT d.id FROM eventhub.deliveries d WHERE d.id < $1 AND d.state + 0 <> 1 AND d.state + 0 <> 4
  ORDER BY d.id DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_pending_routed
-- What is ready has an index by route; what waits or stands behind is few beside it and is looked through.
WITH held_back AS MATERIALIZED (
  (SELECT event_id, route FROM eventhub.deliveries WHERE state = 3 ORDER BY due)
  UNION ALL (SELECT event_id, route FROM eventhub.deliveries WHERE state = 2 ORDER BY lane, id))
SELECT s.* FROM (
  SELECT c.id FROM (
    SELECT r.event_id AS id FROM unnest($4::integer[]) AS w(route)
    CROSS JOIN LATERAL (SELECT d.event_id FROM eventhub.deliveries d
                        WHERE d.state = 0 AND d.route = w.route AND d.event_id < $1
                        ORDER BY d.event_id DESC LIMIT $2::bigint + $3::bigint) r
    UNION ALL
    SELECT h.event_id FROM held_back h WHERE h.route = ANY ($4) AND h.event_id < $1) c
  ORDER BY c.id DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_pending_typed
-- Both the events of a type and what is ready can be millions, and have few in common. So the two indexes are walked in
-- turn, each from where the other has got to: a run that only one of them has is jumped over.
WITH RECURSIVE walk (route, below, hit, found) AS (
  SELECT w.route, $1::bigint, NULL::bigint, 0 FROM unnest($4::integer[]) AS w(route)
  UNION ALL
  SELECT w.route, CASE WHEN d.event_id = e.id THEN e.id ELSE d.event_id + 1 END,
         CASE WHEN d.event_id = e.id THEN e.id END, w.found + (d.event_id = e.id)::integer
  FROM walk w
  CROSS JOIN LATERAL (SELECT e.id FROM eventhub.events e
                      WHERE (e.type, e.route) >= ($5, w.route) AND (e.type, e.route, e.id) < ($5, w.route, w.below)
                      ORDER BY e.type DESC, e.route DESC, e.id DESC LIMIT 1) e
  CROSS JOIN LATERAL (SELECT d.event_id FROM eventhub.deliveries d
                      WHERE d.state = 0 AND d.route = w.route AND d.event_id <= e.id
                      ORDER BY d.event_id DESC LIMIT 1) d
  WHERE w.found < $2::bigint + $3::bigint),
held_back AS MATERIALIZED (
  (SELECT event_id, route FROM eventhub.deliveries WHERE state = 3 ORDER BY due)
  UNION ALL (SELECT event_id, route FROM eventhub.deliveries WHERE state = 2 ORDER BY lane, id))
SELECT s.* FROM (
  SELECT c.id FROM (
    SELECT w.hit AS id FROM walk w WHERE w.hit IS NOT NULL
    UNION ALL
    SELECT h.event_id FROM held_back h
    WHERE h.route = ANY ($4) AND h.event_id < $1
      AND (SELECT e.type FROM eventhub.events e WHERE e.id = h.event_id) = $5) c
  ORDER BY c.id DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_leased
-- Being worked on: as many as there are open claims, so they are looked through whatever the filter.
WITH leased AS MATERIALIZED (SELECT event_id, route FROM eventhub.deliveries WHERE state = 1 ORDER BY due)
SELECT s.* FROM (
  SELECT h.event_id AS id FROM leased h
  WHERE h.event_id < $1 AND ($4::integer[] IS NULL OR h.route = ANY ($4))
    AND ($5::text IS NULL OR (SELECT e.type FROM eventhub.events e WHERE e.id = h.event_id) = $5)
  ORDER BY h.event_id DESC LIMIT $2 OFFSET $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.event_states v WHERE v.id = f.id OFFSET 0) s
ORDER BY s.id DESC;

-- name: events_dead
-- Given up: a dead letter has its event's type and route.
SELECT s.* FROM (
  SELECT l.event_id AS id FROM eventhub.dead_letters l
  WHERE l.retried_at IS NULL AND l.event_id < $1 AND l.status = $6
    AND ($4::integer[] IS NULL OR l.route = ANY ($4)) AND ($5::text IS NULL OR l.type = $5)
  ORDER BY l.event_id DESC, l.id DESC LIMIT $2 OFFSET $3) f
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

-- name: count_states
-- Pending, or being worked on.
SELECT count(*) FROM eventhub.deliveries d
WHERE d.state = ANY ($1::smallint[]) AND ($2::integer[] IS NULL OR d.route = ANY ($2))
  AND ($3::text IS NULL OR (SELECT e.type FROM eventhub.events e WHERE e.id = d.event_id) = $3);

-- name: count_letters
SELECT count(*) FROM eventhub.dead_letters l
WHERE l.retried_at IS NULL AND l.status = $1 AND ($2::integer[] IS NULL OR l.route = ANY ($2))
  AND ($3::text IS NULL OR l.type = $3);
