-- An event has any number of deliveries, and its status is that of all of them: lists, counts and the event itself.

-- The ordering key of a message, which its subscriber's configuration chose; that of work is its event's.
ALTER TABLE eventhub.deliveries ADD COLUMN key text;
ALTER TABLE eventhub.dead_letters ADD COLUMN key text;

-- Work that waits or stands behind, for lists by route; messages may be held back by the million and are found by event.
CREATE INDEX deliveries_held ON eventhub.deliveries (route, event_id) WHERE state IN (2, 3) AND subscriber IS NULL;

-- The status of an event, as core/lifecycle.py has it, for lists that walk from event to event; ask for one id at a time.
-- Each question is a look-up of its own, never EXISTS: the planner would answer that by hashing whole tables. Where
-- there never was a subscriber, nothing of a dead event can have completed, and the log is not asked.
CREATE VIEW eventhub.event_statuses AS
SELECT e.id, CASE
  WHEN (SELECT d.state FROM eventhub.deliveries d WHERE d.id = e.id) = 1
    OR (SELECT true FROM eventhub.deliveries m WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state + 0 = 1
        LIMIT 1) THEN 'PROCESSING'
  WHEN (SELECT d.state FROM eventhub.deliveries d WHERE d.id = e.id) <> 4
    OR (SELECT true FROM eventhub.deliveries m WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state + 0 <> 4
        LIMIT 1)
    OR (SELECT true FROM eventhub.fanout f WHERE f.event_id = e.id) THEN 'PENDING'
  WHEN (SELECT count(*) FROM eventhub.dead_letters l WHERE l.event_id = e.id AND l.retried_at IS NULL) = 0
    THEN 'COMPLETED'
  WHEN (SELECT bool_or(l.status = 'COMPLETED_WITH_ERRORS') FROM eventhub.dead_letters l
        WHERE l.event_id = e.id AND l.retried_at IS NULL)
    OR (SELECT value <> '0' FROM eventhub.meta WHERE key = 'subscribers')
       AND (SELECT true FROM eventhub.event_log g WHERE g.event_id = e.id AND g.action = 'COMPLETED' LIMIT 1)
    THEN 'COMPLETED_WITH_ERRORS'
  ELSE 'FAILED' END AS status
FROM eventhub.events e;

-- Every event with something open, once: leased when any of its deliveries is, else as its work stands, else waiting
-- when all its messages are. For counting; the type costs nothing where nobody asks for it.
CREATE VIEW eventhub.open_events AS
SELECT d.event_id AS id, d.route, (SELECT e.type FROM eventhub.events e WHERE e.id = d.event_id) AS type,
       CASE WHEN h.event_id IS NULL THEN d.state ELSE 1 END AS state
FROM eventhub.deliveries d
LEFT JOIN (SELECT DISTINCT event_id FROM eventhub.deliveries WHERE state = 1 AND subscriber IS NOT NULL) h
       ON h.event_id = d.event_id
WHERE d.subscriber IS NULL AND d.state <> 4
UNION ALL
SELECT b.event_id, e.route, e.type, CASE WHEN b.leased THEN 1 WHEN b.waiting THEN 3 ELSE 0 END
FROM (SELECT m.event_id, bool_or(m.state = 1) AS leased, bool_and(m.state = 3) AS waiting
      FROM (SELECT event_id, state FROM eventhub.deliveries WHERE subscriber IS NOT NULL AND state <> 4
            UNION ALL SELECT event_id, CASE WHEN due IS NULL THEN 0 ELSE 3 END FROM eventhub.fanout) m
      GROUP BY m.event_id) b
JOIN eventhub.events e ON e.id = b.event_id
WHERE NOT EXISTS (SELECT 1 FROM eventhub.deliveries w WHERE w.id = b.event_id AND w.state <> 4);

-- Every event of which nothing is open and something was given up, once. For counting, too.
CREATE VIEW eventhub.dead_events AS
SELECT l.event_id AS id, (SELECT e.route FROM eventhub.events e WHERE e.id = l.event_id) AS route, l.type,
       CASE WHEN l.partly OR (SELECT value <> '0' FROM eventhub.meta WHERE key = 'subscribers')
                 AND (SELECT true FROM eventhub.event_log g WHERE g.event_id = l.event_id AND g.action = 'COMPLETED'
                      LIMIT 1) THEN 'COMPLETED_WITH_ERRORS' ELSE 'FAILED' END AS status
FROM (SELECT event_id, min(type) AS type, bool_or(status = 'COMPLETED_WITH_ERRORS') AS partly
      FROM eventhub.dead_letters WHERE retried_at IS NULL GROUP BY event_id) l
WHERE NOT EXISTS (SELECT 1 FROM eventhub.deliveries w WHERE w.id = l.event_id AND w.state <> 4)
  AND NOT EXISTS (SELECT 1 FROM eventhub.deliveries m
                  WHERE m.event_id = l.event_id AND m.subscriber IS NOT NULL AND m.state <> 4)
  AND NOT EXISTS (SELECT 1 FROM eventhub.fanout f WHERE f.event_id = l.event_id);

-- Events that are not completed.
DROP VIEW eventhub.unfinished;
CREATE VIEW eventhub.unfinished AS
SELECT id, route, type FROM eventhub.open_events UNION ALL SELECT id, route, type FROM eventhub.dead_events;

-- An event as people see it: its facts, and where its deliveries stand: the states of the open ones (a marker is as good
-- as a ready one), the statuses of its dead letters, whether any has completed. The counters are those of the work on it;
-- an event without work has the highest of its messages, and the last hundred of their errors.
DROP VIEW eventhub.event_states;
CREATE VIEW eventhub.event_states AS
SELECT e.id, e.type, e.payload, e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key,
       e.created_at, r.queue,
       concat_ws(',', d.state, m.states, CASE WHEN f.event_id IS NOT NULL THEN 0 END) AS states,
       concat_ws(',', l.status, x.statuses) AS dead, g.completed,
       coalesce(d.attempts, l.attempts, g.attempts, greatest(m.attempts, x.attempts, g.message_attempts), 0) AS attempts,
       coalesce(d.failures, l.failures,
                CASE WHEN g.attempts IS NULL THEN greatest(m.failures, x.failures, (
                       SELECT max(c.failures)
                       FROM (SELECT count(*) FILTER (WHERE a.id > a.since) AS failures
                             FROM (SELECT n.id, n.delivery_id, n.action,
                                          coalesce(max(n.id) FILTER (WHERE n.action = 'RETRIED')
                                                   OVER (PARTITION BY n.delivery_id), 0) AS since
                                   FROM eventhub.event_log n WHERE n.event_id = e.id) a
                             WHERE a.action IN ('FAILED', 'ABANDONED') GROUP BY a.delivery_id) c))
                     WHEN g.retried IS NULL THEN g.failures
                     ELSE (SELECT count(*) FROM eventhub.event_log n
                           WHERE n.event_id = e.id AND n.delivery_id = e.id AND n.action IN ('FAILED', 'ABANDONED')
                             AND n.id > g.retried) END, 0) AS failures,
       d.fence, coalesce(CASE WHEN d.state = 1 THEN d.due END, m.lease_ends) AS lease_ends,
       coalesce(CASE WHEN d.state = 3 THEN d.due END, m.next_retry, f.due) AS next_retry,
       CASE WHEN d.id IS NOT NULL OR l.id IS NOT NULL THEN coalesce(d.errors, l.errors)
            WHEN m.states IS NOT NULL OR x.statuses IS NOT NULL THEN (
              SELECT jsonb_agg(t.error ORDER BY t.id, t.place)
              FROM (SELECT o.id, v.error, v.place
                    FROM (SELECT p.id, p.errors FROM eventhub.deliveries p
                          WHERE p.event_id = e.id AND p.subscriber IS NOT NULL AND p.state <> 4
                          UNION ALL SELECT p.delivery_id, p.errors FROM eventhub.dead_letters p
                          WHERE p.event_id = e.id AND p.retried_at IS NULL) o
                    CROSS JOIN LATERAL jsonb_array_elements(o.errors) WITH ORDINALITY AS v(error, place)
                    ORDER BY o.id DESC, v.place DESC LIMIT 100) t) END AS errors,
       coalesce(g.updated_at, e.created_at) AS updated_at
FROM eventhub.events e
JOIN eventhub.routes r ON r.id = e.route
LEFT JOIN eventhub.deliveries d ON d.id = e.id AND d.state <> 4
LEFT JOIN eventhub.dead_letters l ON l.delivery_id = e.id AND l.retried_at IS NULL
LEFT JOIN eventhub.fanout f ON f.event_id = e.id
CROSS JOIN LATERAL (
  SELECT string_agg(DISTINCT n.state::text, ',') AS states, max(n.attempts) AS attempts, max(n.failures) AS failures,
         min(n.due) FILTER (WHERE n.state = 1) AS lease_ends, min(n.due) FILTER (WHERE n.state = 3) AS next_retry
  FROM eventhub.deliveries n WHERE n.event_id = e.id AND n.subscriber IS NOT NULL AND n.state <> 4) m
CROSS JOIN LATERAL (
  SELECT string_agg(DISTINCT n.status, ',') AS statuses, max(n.attempts) AS attempts, max(n.failures) AS failures
  FROM eventhub.dead_letters n WHERE n.event_id = e.id AND n.retried_at IS NULL AND n.delivery_id + 0 <> e.id) x
CROSS JOIN LATERAL (
  SELECT max(n.created_at) AS updated_at, coalesce(bool_or(n.action = 'COMPLETED'), false) AS completed,
         max(n.attempt) FILTER (WHERE n.action = 'COMPLETED' AND n.delivery_id = e.id) AS attempts,
         max(n.attempt) FILTER (WHERE n.action IN ('COMPLETED', 'CANCELLED')) AS message_attempts,
         count(*) FILTER (WHERE n.action IN ('FAILED', 'ABANDONED') AND n.delivery_id = e.id) AS failures,
         max(n.id) FILTER (WHERE n.action = 'RETRIED' AND n.delivery_id = e.id) AS retried
  FROM eventhub.event_log n WHERE n.event_id = e.id) g;

-- The newest work of a route that nobody holds, below an event, by its two indexes; nor may a message of its event be
-- held. Like the next one it stands for its text in the statements that use it: the planner puts it in its place.
CREATE FUNCTION eventhub.pending_work(of_route integer, below bigint, most bigint) RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
  (SELECT d.event_id FROM eventhub.deliveries d
   WHERE d.state = 0 AND d.route = of_route AND d.event_id < below
     AND coalesce((SELECT false FROM eventhub.deliveries m WHERE m.event_id = d.event_id
                     AND m.subscriber IS NOT NULL AND m.state + 0 = 1 LIMIT 1), true)
   ORDER BY d.event_id DESC LIMIT most)
  UNION ALL
  (SELECT d.event_id FROM eventhub.deliveries d
   WHERE d.state IN (2, 3) AND d.subscriber IS NULL AND d.route = of_route AND d.event_id < below
     AND coalesce((SELECT false FROM eventhub.deliveries m WHERE m.event_id = d.event_id
                     AND m.subscriber IS NOT NULL AND m.state + 0 = 1 LIMIT 1), true)
   ORDER BY d.event_id DESC LIMIT most)
$$;

-- The newest event below another that has messages or a marker.
CREATE FUNCTION eventhub.broadcast_below(below bigint) RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
  SELECT greatest((SELECT m.event_id FROM eventhub.deliveries m
                   WHERE m.subscriber IS NOT NULL AND m.event_id < below ORDER BY m.event_id DESC LIMIT 1),
                  (SELECT f.event_id FROM eventhub.fanout f
                   WHERE f.event_id < below ORDER BY f.event_id DESC LIMIT 1))
  OFFSET 0
$$;
