-- name: routes
-- Routes are few: lists by queue and tags choose among them first, and then read only what is theirs. Those of
-- subscribers are left out: messages wait there, and no event has them.
SELECT id, tags FROM eventhub_routes
WHERE (:queue IS NULL OR queue = :queue) AND (queue <> 'hub' OR tags = '') AND (:type IS NULL OR type IN ('', :type));

-- name: events_recent
-- All events, or the completed ones: no delivery of theirs is open, to be made or given up. In every list the ids of the
-- page are found first and only they are told in full.
SELECT * FROM eventhub_event_states WHERE id IN (
  SELECT e.id FROM eventhub_events e NOT INDEXED
  WHERE e.id < :before
    AND (NOT :completed OR (
      NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = e.id)
      AND NOT EXISTS (SELECT 1 FROM eventhub_dead_letters l INDEXED BY eventhub_dead_letters_page
                      WHERE l.event_id = e.id AND l.retried_at IS NULL)
      AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                      WHERE m.event_id = e.id AND m.subscriber IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM eventhub_fanout f WHERE f.event_id = e.id)))
  ORDER BY e.id DESC LIMIT :limit OFFSET :offset)
ORDER BY id DESC;

-- name: events_of_kinds
-- The newest of each type on each route, merged by id: of the type that is asked for, or of those that a route has, from
-- one to the next. None is followed below the floor, which who asks lowers until the page is full: so a type of which
-- nothing fits is not walked to its end. The index is named, because by the primary key a rare kind would be looked for
-- among all events; and a CROSS JOIN keeps its order, so that it goes from the kinds to their events, never back.
WITH RECURSIVE kinds (route, type) AS (
  SELECT w.value, coalesce(:type, (SELECT min(x.type) FROM eventhub_events x INDEXED BY eventhub_events_kind
                                   WHERE x.route = w.value))
  FROM carray(:routes) w
  UNION ALL
  SELECT k.route, (SELECT min(x.type) FROM eventhub_events x INDEXED BY eventhub_events_kind
                   WHERE x.route = k.route AND x.type > k.type)
  FROM kinds k WHERE :type IS NULL AND k.type IS NOT NULL)
SELECT * FROM eventhub_event_states WHERE id IN (
  SELECT e.id FROM kinds k
  CROSS JOIN eventhub_events e ON e.id IN (
    SELECT x.id FROM eventhub_events x INDEXED BY eventhub_events_kind
    WHERE x.route = k.route AND x.type = k.type AND x.id >= :floor AND x.id < :before
      AND (NOT :completed OR (
        NOT EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = x.id)
        AND NOT EXISTS (SELECT 1 FROM eventhub_dead_letters l INDEXED BY eventhub_dead_letters_page
                        WHERE l.event_id = x.id AND l.retried_at IS NULL)
        AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                        WHERE m.event_id = x.id AND m.subscriber IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM eventhub_fanout f WHERE f.event_id = x.id)))
    ORDER BY x.id DESC LIMIT :limit + :offset)
  ORDER BY e.id DESC LIMIT :limit OFFSET :offset)
ORDER BY id DESC;

-- name: events_pending
-- The work that nobody holds, by its two indexes: the routes with the newest, and the newest of each. And the broadcasts,
-- from event to event that has messages or a marker; only what is held or parked is stepped over.
WITH RECURSIVE walk (below, pending, found) AS (
  SELECT :before, 0, 0
  UNION ALL
  SELECT e.id, (SELECT s.status = 'PENDING' FROM eventhub_event_statuses s WHERE s.id = e.id), w.found + w.pending
  FROM walk w
  CROSS JOIN eventhub_events e ON e.id = (SELECT b.event_id FROM eventhub_broadcasts b WHERE b.event_id < w.below
                                          ORDER BY b.event_id DESC LIMIT 1)
  WHERE w.found + w.pending < :limit + :offset),
head (route, newest) AS MATERIALIZED (
  SELECT w.value,
         max(coalesce((SELECT n.event_id FROM eventhub_ready_work n WHERE n.route = w.value AND n.event_id < :before
                       ORDER BY n.event_id DESC LIMIT 1), 0),
             coalesce((SELECT n.event_id FROM eventhub_held_work n WHERE n.route = w.value AND n.event_id < :before
                       ORDER BY n.event_id DESC LIMIT 1), 0)) AS newest
  FROM (SELECT id AS value FROM eventhub_routes WHERE (queue <> 'hub' OR tags = '') AND retired = 0) w
  ORDER BY newest DESC LIMIT :limit + :offset),
found (id) AS (
  SELECT d.event_id FROM head h
  CROSS JOIN eventhub_deliveries d ON d.id IN (SELECT n.id FROM eventhub_ready_work n
                                               WHERE n.route = h.route AND n.event_id < :before
                                               ORDER BY n.event_id DESC LIMIT :limit + :offset)
  UNION ALL
  SELECT d.event_id FROM head h
  CROSS JOIN eventhub_deliveries d ON d.id IN (SELECT n.id FROM eventhub_held_work n
                                               WHERE n.route = h.route AND n.event_id < :before
                                               ORDER BY n.event_id DESC LIMIT :limit + :offset)
  UNION ALL
  SELECT below FROM walk WHERE pending)
SELECT * FROM eventhub_event_states
WHERE id IN (SELECT DISTINCT id FROM found ORDER BY id DESC LIMIT :limit OFFSET :offset) ORDER BY id DESC;

-- name: events_pending_routed
-- The same for some routes: their broadcasts are found by walking those that are open and the events of each type that a
-- route has in turn, each from where the other has got to.
WITH RECURSIVE kinds (route, type) AS (
  SELECT w.value, (SELECT min(x.type) FROM eventhub_events x INDEXED BY eventhub_events_kind WHERE x.route = w.value)
  FROM carray(:routes) w
  UNION ALL
  SELECT k.route, (SELECT min(x.type) FROM eventhub_events x INDEXED BY eventhub_events_kind
                   WHERE x.route = k.route AND x.type > k.type)
  FROM kinds k WHERE k.type IS NOT NULL),
walk (route, type, below, hit, found) AS (
  SELECT route, type, :before, NULL, 0 FROM kinds WHERE type IS NOT NULL
  UNION ALL
  SELECT w.route, w.type, CASE WHEN e.id = o.id THEN e.id ELSE e.id + 1 END,
         CASE WHEN e.id = o.id AND (SELECT s.status = 'PENDING' FROM eventhub_event_statuses s WHERE s.id = o.id)
              THEN e.id END, w.found + (w.hit IS NOT NULL)
  FROM walk w
  CROSS JOIN eventhub_events o ON o.id = (SELECT b.event_id FROM eventhub_broadcasts b WHERE b.event_id < w.below
                                          ORDER BY b.event_id DESC LIMIT 1)
  CROSS JOIN eventhub_events e
    ON e.id = (SELECT x.id FROM eventhub_events x INDEXED BY eventhub_events_kind
               WHERE x.route = w.route AND x.type = w.type AND x.id <= o.id ORDER BY x.id DESC LIMIT 1)
  WHERE w.found + (w.hit IS NOT NULL) < :limit + :offset),
head (route, newest) AS MATERIALIZED (
  SELECT w.value,
         max(coalesce((SELECT n.event_id FROM eventhub_ready_work n WHERE n.route = w.value AND n.event_id < :before
                       ORDER BY n.event_id DESC LIMIT 1), 0),
             coalesce((SELECT n.event_id FROM eventhub_held_work n WHERE n.route = w.value AND n.event_id < :before
                       ORDER BY n.event_id DESC LIMIT 1), 0)) AS newest
  FROM carray(:routes) w
  ORDER BY newest DESC LIMIT :limit + :offset),
found (id) AS (
  SELECT d.event_id FROM head h
  CROSS JOIN eventhub_deliveries d ON d.id IN (SELECT n.id FROM eventhub_ready_work n
                                               WHERE n.route = h.route AND n.event_id < :before
                                               ORDER BY n.event_id DESC LIMIT :limit + :offset)
  UNION ALL
  SELECT d.event_id FROM head h
  CROSS JOIN eventhub_deliveries d ON d.id IN (SELECT n.id FROM eventhub_held_work n
                                               WHERE n.route = h.route AND n.event_id < :before
                                               ORDER BY n.event_id DESC LIMIT :limit + :offset)
  UNION ALL
  SELECT hit FROM walk WHERE hit IS NOT NULL)
SELECT * FROM eventhub_event_states
WHERE id IN (SELECT DISTINCT id FROM found ORDER BY id DESC LIMIT :limit OFFSET :offset) ORDER BY id DESC;

-- name: events_pending_typed
-- Both the events of a type and what is open can be millions, and have few in common. So two indexes are walked in turn,
-- each from where the other has got to: a run that only one of them has is jumped over. Three times on each route: with
-- the work that is ready (0), with the work that is held back (2), and with the broadcasts (9).
WITH RECURSIVE walk (kind, route, below, hit, found) AS (
  SELECT k.column1, r.value, :before, NULL, 0 FROM carray(:routes) r CROSS JOIN (VALUES (0), (2), (9)) k
  UNION ALL
  SELECT w.kind, w.route, CASE WHEN e.id = o.id THEN e.id ELSE e.id + 1 END,
         CASE WHEN e.id = o.id AND (w.kind <> 9 OR (SELECT s.status = 'PENDING' FROM eventhub_event_statuses s WHERE s.id = o.id))
              THEN e.id END, w.found + (w.hit IS NOT NULL)
  FROM walk w
  CROSS JOIN eventhub_events o
    ON o.id = CASE w.kind
      WHEN 0 THEN (SELECT n.event_id FROM eventhub_ready_work n WHERE n.route = w.route AND n.event_id < w.below
                   ORDER BY n.event_id DESC LIMIT 1)
      WHEN 2 THEN (SELECT n.event_id FROM eventhub_held_work n WHERE n.route = w.route AND n.event_id < w.below
                   ORDER BY n.event_id DESC LIMIT 1)
      ELSE (SELECT b.event_id FROM eventhub_broadcasts b WHERE b.event_id < w.below
            ORDER BY b.event_id DESC LIMIT 1) END
  CROSS JOIN eventhub_events e
    ON e.id = (SELECT x.id FROM eventhub_events x INDEXED BY eventhub_events_kind
               WHERE x.route = w.route AND x.type = :type AND x.id <= o.id ORDER BY x.id DESC LIMIT 1)
  WHERE w.found + (w.hit IS NOT NULL) < :limit + :offset),
found (id) AS (SELECT hit FROM walk WHERE hit IS NOT NULL)
SELECT * FROM eventhub_event_states
WHERE id IN (SELECT DISTINCT id FROM found ORDER BY id DESC LIMIT :limit OFFSET :offset) ORDER BY id DESC;

-- name: events_leased
-- Being worked on: as many as there are open claims, so they are looked through whatever the filter.
SELECT * FROM eventhub_event_states WHERE id IN (
  SELECT DISTINCT h.event_id FROM eventhub_deliveries h INDEXED BY eventhub_deliveries_leased
  WHERE h.state = 1 AND h.event_id < :before
    AND (NOT :routed OR (SELECT e.route FROM eventhub_events e WHERE e.id = h.event_id)
                        IN (SELECT value FROM carray(:routes)))
    AND (:type IS NULL OR :type = (SELECT e.type FROM eventhub_events e WHERE e.id = h.event_id))
  ORDER BY h.event_id DESC LIMIT :limit OFFSET :offset)
ORDER BY id DESC;

-- name: events_dead
-- Given up: from event to event that has a dead letter, until enough of them have the status. A letter has its event's
-- type, that of work its route, too. An event of which something completed ends with errors, whatever its letters say,
-- but not where there never was a subscriber.
WITH RECURSIVE walk (below, fits, found) AS (
  SELECT :before, 0, 0
  UNION ALL
  SELECT e.id, (SELECT s.status = :status FROM eventhub_event_statuses s WHERE s.id = e.id)
               AND (NOT :routed OR e.route IN (SELECT value FROM carray(:routes))), w.found + w.fits
  FROM walk w
  CROSS JOIN eventhub_events e
    ON e.id = (SELECT l.event_id FROM eventhub_dead_letters l INDEXED BY eventhub_dead_letters_page
               WHERE l.retried_at IS NULL AND l.event_id < w.below AND (:type IS NULL OR l.type = :type)
                 AND (NOT :routed OR l.subscriber IS NOT NULL OR l.route IN (SELECT value FROM carray(:routes)))
                 AND (l.status = :status OR :status <> 'FAILED' AND (SELECT value <> '0' FROM eventhub_meta
                                                                     WHERE key = 'subscribers'))
               ORDER BY l.event_id DESC LIMIT 1)
  WHERE w.found + w.fits < :limit + :offset)
SELECT * FROM eventhub_event_states
WHERE id IN (SELECT below FROM walk WHERE fits ORDER BY below DESC LIMIT :limit OFFSET :offset) ORDER BY id DESC;

-- name: count_recent
-- Completed is what is left when the unfinished are taken away, which need not be looked for one by one.
SELECT (SELECT count(*) FROM eventhub_events)
       - CASE WHEN :completed THEN (SELECT count(*) FROM eventhub_open_events) + (SELECT count(*) FROM eventhub_dead_events)
              ELSE 0 END;

-- name: count_routed
SELECT (SELECT count(*) FROM eventhub_events WHERE route IN (SELECT value FROM carray(:routes)))
       - CASE WHEN :completed THEN (SELECT count(*) FROM eventhub_unfinished
                                    WHERE route IN (SELECT value FROM carray(:routes))) ELSE 0 END;

-- name: count_typed
SELECT (SELECT count(*) FROM eventhub_events INDEXED BY eventhub_events_kind
        WHERE route IN (SELECT value FROM carray(:routes)) AND type = :type)
       - CASE WHEN :completed THEN (SELECT count(*) FROM eventhub_unfinished
                                    WHERE type = :type AND route IN (SELECT value FROM carray(:routes))) ELSE 0 END;

-- name: count_pending
SELECT (SELECT count(*) FROM eventhub_open_work o
        WHERE o.state <> 1 AND (NOT :routed OR o.route IN (SELECT value FROM carray(:routes)))
          AND (:type IS NULL OR :type = o.type))
       + (SELECT count(*) FROM eventhub_open_broadcasts o
          WHERE o.state <> 1 AND (NOT :routed OR o.route IN (SELECT value FROM carray(:routes)))
            AND (:type IS NULL OR :type = o.type));

-- name: count_leased
SELECT count(DISTINCT h.event_id) FROM eventhub_deliveries h INDEXED BY eventhub_deliveries_leased
WHERE h.state = 1
  AND (NOT :routed OR (SELECT e.route FROM eventhub_events e WHERE e.id = h.event_id) IN (SELECT value FROM carray(:routes)))
  AND (:type IS NULL OR :type = (SELECT e.type FROM eventhub_events e WHERE e.id = h.event_id));

-- name: count_letters
SELECT count(*) FROM eventhub_dead_events d
WHERE d.status = :status AND (NOT :routed OR d.route IN (SELECT value FROM carray(:routes)))
  AND (:type IS NULL OR d.type = :type);
