-- name: routes
-- Routes are few: lists by queue and tags choose among them first, and then read only what is theirs.
SELECT id, tags FROM eventhub_routes WHERE :queue IS NULL OR queue = :queue;

-- name: events_recent
-- All events, or the completed ones: neither open nor given up. In every list the ids of the page are found first and
-- only they are told in full.
SELECT * FROM eventhub_event_states WHERE id IN (
  SELECT e.id FROM eventhub_events e NOT INDEXED
  WHERE e.id < :before
    AND (NOT :completed OR (
      NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = e.id)
      AND NOT EXISTS (SELECT 1 FROM eventhub_dead_letters l WHERE l.delivery_id = e.id AND l.retried_at IS NULL)))
  ORDER BY e.id DESC LIMIT :limit OFFSET :offset)
ORDER BY id DESC;

-- name: events_routed
-- The newest of each route, merged by id. The index is named, because by the primary key a rare route would be looked
-- for among all events; and a CROSS JOIN keeps its order, so that it goes from the routes to their events, never back.
SELECT * FROM eventhub_event_states WHERE id IN (
  SELECT e.id FROM carray(:routes) w
  CROSS JOIN eventhub_events e ON e.id IN (
    SELECT x.id FROM eventhub_events x INDEXED BY eventhub_events_route
    WHERE x.route = w.value AND x.id < :before
      AND (NOT :completed OR (
        NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = x.id)
        AND NOT EXISTS (SELECT 1 FROM eventhub_dead_letters l WHERE l.delivery_id = x.id AND l.retried_at IS NULL)))
    ORDER BY x.id DESC LIMIT :limit + :offset)
  ORDER BY e.id DESC LIMIT :limit OFFSET :offset)
ORDER BY id DESC;

-- name: events_typed
-- The newest of a type on each route, merged by id: a list by type alone asks for all routes.
SELECT * FROM eventhub_event_states WHERE id IN (
  SELECT e.id FROM carray(:routes) w
  CROSS JOIN eventhub_events e ON e.id IN (
    SELECT x.id FROM eventhub_events x INDEXED BY eventhub_events_type
    WHERE x.type = :type AND x.route = w.value AND x.id < :before
      AND (NOT :completed OR (
        NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = x.id)
        AND NOT EXISTS (SELECT 1 FROM eventhub_dead_letters l WHERE l.delivery_id = x.id AND l.retried_at IS NULL)))
    ORDER BY x.id DESC LIMIT :limit + :offset)
  ORDER BY e.id DESC LIMIT :limit OFFSET :offset)
ORDER BY id DESC;

-- name: events_pending
-- The newest deliveries that nobody holds; only what is held or parked is stepped over.
SELECT * FROM eventhub_event_states WHERE id IN (
  SELECT d.id FROM eventhub_deliveries d NOT INDEXED WHERE d.id < :before AND d.state NOT IN (1, 4)
  ORDER BY d.id DESC LIMIT :limit OFFSET :offset)
ORDER BY id DESC;

-- name: events_pending_routed
-- What is ready has an index by route; what waits or stands behind is few beside it and is looked through.
WITH found (id) AS (
  SELECT d.event_id FROM carray(:routes) w
  CROSS JOIN eventhub_deliveries d ON d.id IN (SELECT n.id FROM eventhub_deliveries n
                                               WHERE n.state = 0 AND n.route = w.value AND n.event_id < :before
                                               ORDER BY n.event_id DESC LIMIT :limit + :offset)
  UNION ALL
  SELECT h.event_id FROM eventhub_deliveries h INDEXED BY eventhub_deliveries_waiting
  WHERE h.state = 3 AND h.event_id < :before AND h.route IN (SELECT value FROM carray(:routes))
  UNION ALL
  SELECT h.event_id FROM eventhub_deliveries h INDEXED BY eventhub_deliveries_behind
  WHERE h.state = 2 AND h.event_id < :before AND h.route IN (SELECT value FROM carray(:routes)))
SELECT * FROM eventhub_event_states
WHERE id IN (SELECT id FROM found ORDER BY id DESC LIMIT :limit OFFSET :offset) ORDER BY id DESC;

-- name: events_pending_typed
-- Both the events of a type and what is ready can be millions, and have few in common. So the two indexes are walked in
-- turn, each from where the other has got to: a run that only one of them has is jumped over.
WITH RECURSIVE walk (route, below, hit, found) AS (
  SELECT value, :before, NULL, 0 FROM carray(:routes)
  UNION ALL
  SELECT w.route, CASE WHEN d.event_id = e.id THEN e.id ELSE d.event_id + 1 END,
         CASE WHEN d.event_id = e.id THEN e.id END, w.found + (d.event_id = e.id)
  FROM walk w
  CROSS JOIN eventhub_events e
    ON e.id = (SELECT x.id FROM eventhub_events x INDEXED BY eventhub_events_type
               WHERE x.type = :type AND x.route = w.route AND x.id < w.below ORDER BY x.id DESC LIMIT 1)
  CROSS JOIN eventhub_deliveries d
    ON d.id = (SELECT n.id FROM eventhub_deliveries n
               WHERE n.state = 0 AND n.route = w.route AND n.event_id <= e.id ORDER BY n.event_id DESC LIMIT 1)
  WHERE w.found < :limit + :offset),
found (id) AS (
  SELECT hit FROM walk WHERE hit IS NOT NULL
  UNION ALL
  SELECT h.event_id FROM eventhub_deliveries h INDEXED BY eventhub_deliveries_waiting
  CROSS JOIN eventhub_events e ON e.id = h.event_id
  WHERE h.state = 3 AND h.event_id < :before AND h.route IN (SELECT value FROM carray(:routes)) AND +e.type = :type
  UNION ALL
  SELECT h.event_id FROM eventhub_deliveries h INDEXED BY eventhub_deliveries_behind
  CROSS JOIN eventhub_events e ON e.id = h.event_id
  WHERE h.state = 2 AND h.event_id < :before AND h.route IN (SELECT value FROM carray(:routes)) AND +e.type = :type)
SELECT * FROM eventhub_event_states
WHERE id IN (SELECT id FROM found ORDER BY id DESC LIMIT :limit OFFSET :offset) ORDER BY id DESC;

-- name: events_leased
-- Being worked on: as many as there are open claims, so they are looked through whatever the filter.
SELECT * FROM eventhub_event_states WHERE id IN (
  SELECT h.event_id FROM eventhub_deliveries h INDEXED BY eventhub_deliveries_leased
  WHERE h.state = 1 AND h.event_id < :before
    AND (NOT :routed OR h.route IN (SELECT value FROM carray(:routes)))
    AND (:type IS NULL OR :type = (SELECT e.type FROM eventhub_events e WHERE e.id = h.event_id))
  ORDER BY h.event_id DESC LIMIT :limit OFFSET :offset)
ORDER BY id DESC;

-- name: events_dead
-- Given up: a dead letter has its event's type and route.
SELECT * FROM eventhub_event_states WHERE id IN (
  SELECT l.event_id FROM eventhub_dead_letters l INDEXED BY eventhub_dead_letters_page
  WHERE l.retried_at IS NULL AND l.event_id < :before AND l.status = :status
    AND (NOT :routed OR l.route IN (SELECT value FROM carray(:routes)))
    AND (:type IS NULL OR l.type = :type)
  ORDER BY l.event_id DESC, l.id DESC LIMIT :limit OFFSET :offset)
ORDER BY id DESC;

-- name: count_recent
-- Completed is what is left when the unfinished are taken away, which need not be looked for one by one.
SELECT (SELECT count(*) FROM eventhub_events)
       - CASE WHEN :completed THEN (SELECT count(*) FROM eventhub_unfinished) ELSE 0 END;

-- name: count_routed
SELECT (SELECT count(*) FROM eventhub_events WHERE route IN (SELECT value FROM carray(:routes)))
       - CASE WHEN :completed THEN (SELECT count(*) FROM eventhub_unfinished
                                    WHERE route IN (SELECT value FROM carray(:routes))) ELSE 0 END;

-- name: count_typed
SELECT (SELECT count(*) FROM eventhub_events INDEXED BY eventhub_events_type
        WHERE type = :type AND route IN (SELECT value FROM carray(:routes)))
       - CASE WHEN :completed THEN (SELECT count(*) FROM eventhub_unfinished
                                    WHERE type = :type AND route IN (SELECT value FROM carray(:routes))) ELSE 0 END;

-- name: count_states
-- Pending, or being worked on.
SELECT count(*) FROM eventhub_deliveries d
WHERE d.state IN (SELECT value FROM carray(:states)) AND (NOT :routed OR d.route IN (SELECT value FROM carray(:routes)))
  AND (:type IS NULL OR :type = (SELECT e.type FROM eventhub_events e WHERE e.id = d.event_id));

-- name: count_letters
SELECT count(*) FROM eventhub_dead_letters l
WHERE l.retried_at IS NULL AND l.status = :status AND (NOT :routed OR l.route IN (SELECT value FROM carray(:routes)))
  AND (:type IS NULL OR l.type = :type);
