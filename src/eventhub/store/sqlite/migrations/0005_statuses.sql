-- An event has any number of deliveries, and its status is that of all of them: lists, counts and the event itself.

-- The ordering key of a message, which its subscriber's configuration chose; that of work is its event's.
ALTER TABLE eventhub_deliveries ADD COLUMN key TEXT;
ALTER TABLE eventhub_dead_letters ADD COLUMN key TEXT;

-- Work that waits or stands behind, for lists by route; messages may be held back by the million and are found by event.
CREATE INDEX eventhub_deliveries_held ON eventhub_deliveries (route, event_id)
  WHERE state IN (2, 3) AND subscriber IS NULL;

-- The status of an event, as core/lifecycle.py has it, for lists that walk from event to event; ask for one id at a time.
-- Where there never was a subscriber, nothing of a dead event can have completed, and the log is not asked.
CREATE VIEW eventhub_event_statuses AS
SELECT e.id, CASE
  WHEN EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = e.id AND +d.state = 1)
    OR EXISTS (SELECT 1 FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
               WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state = 1) THEN 'PROCESSING'
  WHEN EXISTS (SELECT 1 FROM eventhub_deliveries d WHERE d.id = e.id AND +d.state <> 4)
    OR EXISTS (SELECT 1 FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
               WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state <> 4)
    OR EXISTS (SELECT 1 FROM eventhub_fanout f WHERE f.event_id = e.id) THEN 'PENDING'
  WHEN NOT EXISTS (SELECT 1 FROM eventhub_dead_letters l INDEXED BY eventhub_dead_letters_page
                   WHERE l.event_id = e.id AND l.retried_at IS NULL) THEN 'COMPLETED'
  WHEN EXISTS (SELECT 1 FROM eventhub_dead_letters l INDEXED BY eventhub_dead_letters_page
               WHERE l.event_id = e.id AND l.retried_at IS NULL AND l.status = 'COMPLETED_WITH_ERRORS')
    OR (SELECT value <> '0' FROM eventhub_meta WHERE key = 'subscribers')
       AND EXISTS (SELECT 1 FROM eventhub_event_log g WHERE g.event_id = e.id AND g.action = 'COMPLETED')
    THEN 'COMPLETED_WITH_ERRORS'
  ELSE 'FAILED' END AS status
FROM eventhub_events e;

-- Every event with something open, once: leased when any of its deliveries is, else as its work stands, else waiting
-- when all its messages are. For counting, those with open work and the others apart: as one, the type of each would be
-- looked up, whoever asks for it.
CREATE VIEW eventhub_open_work AS
SELECT d.event_id AS id, d.route, (SELECT e.type FROM eventhub_events e WHERE e.id = d.event_id) AS type,
       CASE WHEN d.event_id IN (SELECT m.event_id FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_leased
                                WHERE m.state = 1 AND m.subscriber IS NOT NULL) THEN 1 ELSE d.state END AS state
FROM eventhub_deliveries d NOT INDEXED WHERE d.subscriber IS NULL AND d.state <> 4;
CREATE VIEW eventhub_open_broadcasts AS
SELECT b.event_id AS id, e.route, e.type, CASE WHEN b.leased THEN 1 WHEN b.waiting THEN 3 ELSE 0 END AS state
FROM (SELECT m.event_id, max(m.state = 1) AS leased, min(m.state = 3) AS waiting
      FROM (SELECT event_id, state FROM eventhub_deliveries WHERE subscriber IS NOT NULL AND state <> 4
            UNION ALL SELECT event_id, CASE WHEN due IS NULL THEN 0 ELSE 3 END FROM eventhub_fanout) m
      GROUP BY m.event_id) b
CROSS JOIN eventhub_events e ON e.id = b.event_id
WHERE NOT EXISTS (SELECT 1 FROM eventhub_deliveries w WHERE w.id = b.event_id AND +w.state <> 4);
CREATE VIEW eventhub_open_events AS
SELECT id, route, state FROM eventhub_open_work UNION ALL SELECT id, route, state FROM eventhub_open_broadcasts;

-- Every event of which nothing is open and something was given up, once. For counting, too.
CREATE VIEW eventhub_dead_events AS
SELECT l.event_id AS id, (SELECT e.route FROM eventhub_events e WHERE e.id = l.event_id) AS route, l.type,
       CASE WHEN l.partly OR (SELECT value <> '0' FROM eventhub_meta WHERE key = 'subscribers')
                 AND EXISTS (SELECT 1 FROM eventhub_event_log g WHERE g.event_id = l.event_id AND g.action = 'COMPLETED')
            THEN 'COMPLETED_WITH_ERRORS' ELSE 'FAILED' END AS status
FROM (SELECT event_id, max(type) AS type, max(status = 'COMPLETED_WITH_ERRORS') AS partly
      FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_page
      WHERE retried_at IS NULL GROUP BY event_id) l
WHERE NOT EXISTS (SELECT 1 FROM eventhub_deliveries w WHERE w.id = l.event_id AND +w.state <> 4)
  AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                  WHERE m.event_id = l.event_id AND m.subscriber IS NOT NULL AND m.state <> 4)
  AND NOT EXISTS (SELECT 1 FROM eventhub_fanout f WHERE f.event_id = l.event_id);

-- Events that are not completed.
DROP VIEW eventhub_unfinished;
CREATE VIEW eventhub_unfinished AS
SELECT id, route, type FROM eventhub_open_work
UNION ALL SELECT id, route, type FROM eventhub_open_broadcasts
UNION ALL SELECT id, route, type FROM eventhub_dead_events;

-- An event as people see it: its facts, and where its deliveries stand: the states of the open ones (a marker is as good
-- as a ready one), the statuses of its dead letters, whether any has completed. The counters are those of the work on it;
-- an event without work has the highest of its messages, and the last hundred of their errors.
DROP VIEW eventhub_event_states;
CREATE VIEW eventhub_event_states AS
SELECT e.id, e.type, e.payload, e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key,
       e.created_at, r.queue,
       concat_ws(',', d.state, (SELECT group_concat(DISTINCT m.state) FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                                WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state <> 4),
                 iif(f.event_id IS NULL, NULL, 0)) AS states,
       concat_ws(',', l.status, (SELECT group_concat(DISTINCT x.status) FROM eventhub_dead_letters x INDEXED BY eventhub_dead_letters_page
                                 WHERE x.event_id = e.id AND x.retried_at IS NULL AND x.subscriber IS NOT NULL)) AS dead,
       EXISTS (SELECT 1 FROM eventhub_event_log g WHERE g.event_id = e.id AND g.action = 'COMPLETED') AS completed,
       coalesce(d.attempts, l.attempts,
                (SELECT max(g.attempt) FROM eventhub_event_log g
                 WHERE g.event_id = e.id AND g.delivery_id = e.id AND g.action = 'COMPLETED'),
                (SELECT max(c.attempts)
                 FROM (SELECT m.attempts FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                       WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state <> 4
                       UNION ALL SELECT x.attempts FROM eventhub_dead_letters x INDEXED BY eventhub_dead_letters_page
                       WHERE x.event_id = e.id AND x.retried_at IS NULL
                       UNION ALL SELECT g.attempt FROM eventhub_event_log g
                       WHERE g.event_id = e.id AND g.action IN ('COMPLETED', 'CANCELLED')) c), 0) AS attempts,
       coalesce(d.failures, l.failures,
                CASE WHEN EXISTS (SELECT 1 FROM eventhub_event_log g
                                  WHERE g.event_id = e.id AND g.delivery_id = e.id AND g.action = 'COMPLETED')
                     THEN (SELECT count(*) FROM eventhub_event_log g
                           WHERE g.event_id = e.id AND g.delivery_id = e.id AND g.action IN ('FAILED', 'ABANDONED')
                             AND g.id > coalesce((SELECT max(n.id) FROM eventhub_event_log n
                                                  WHERE n.event_id = e.id AND n.delivery_id = e.id
                                                    AND n.action = 'RETRIED'), 0))
                     ELSE (SELECT max(c.failures)
                           FROM (SELECT m.failures FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                                 WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state <> 4
                                 UNION ALL SELECT x.failures FROM eventhub_dead_letters x INDEXED BY eventhub_dead_letters_page
                                 WHERE x.event_id = e.id AND x.retried_at IS NULL
                                 UNION ALL
                                 SELECT count(*) FILTER (WHERE a.id > a.since)
                                 FROM (SELECT g.id, g.delivery_id, g.action,
                                              coalesce(max(g.id) FILTER (WHERE g.action = 'RETRIED')
                                                       OVER (PARTITION BY g.delivery_id), 0) AS since
                                       FROM eventhub_event_log g WHERE g.event_id = e.id) a
                                 WHERE a.action IN ('FAILED', 'ABANDONED') GROUP BY a.delivery_id) c) END, 0) AS failures,
       d.fence,
       coalesce(CASE WHEN d.state = 1 THEN d.due END,
                (SELECT min(m.due) FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                 WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state = 1)) AS lease_ends,
       coalesce(CASE WHEN d.state = 3 THEN d.due END,
                (SELECT min(m.due) FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                 WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state = 3), f.due) AS next_retry,
       CASE WHEN d.id IS NOT NULL OR l.id IS NOT NULL THEN coalesce(d.errors, l.errors)
            ELSE (SELECT json_group_array(t.error ORDER BY t.id, t.place)
                  FROM (SELECT o.id, v.value AS error, v.key AS place
                        FROM (SELECT m.id, m.errors FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                              WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state <> 4
                              UNION ALL SELECT x.delivery_id, x.errors FROM eventhub_dead_letters x INDEXED BY eventhub_dead_letters_page
                              WHERE x.event_id = e.id AND x.retried_at IS NULL) o
                        CROSS JOIN json_each(o.errors) v ORDER BY o.id DESC, v.key DESC LIMIT 100) t) END AS errors,
       coalesce((SELECT max(g.created_at) FROM eventhub_event_log g WHERE g.event_id = e.id), e.created_at) AS updated_at
FROM eventhub_events e
JOIN eventhub_routes r ON r.id = e.route
LEFT JOIN eventhub_deliveries d ON d.id = e.id AND d.state <> 4
LEFT JOIN eventhub_dead_letters l ON l.delivery_id = e.id AND l.retried_at IS NULL
LEFT JOIN eventhub_fanout f ON f.event_id = e.id;

-- Work that nobody holds, by its two indexes; nor may a message of its event be held.
CREATE VIEW eventhub_ready_work AS
SELECT d.id, d.event_id, d.route FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_ready
WHERE d.state = 0 AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                                  WHERE m.event_id = d.event_id AND m.subscriber IS NOT NULL AND m.state = 1);
CREATE VIEW eventhub_held_work AS
SELECT d.id, d.event_id, d.route FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_held
WHERE d.state IN (2, 3) AND d.subscriber IS NULL
  AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                  WHERE m.event_id = d.event_id AND m.subscriber IS NOT NULL AND m.state = 1);

-- Events that have messages, as often as they have them, or a marker.
CREATE VIEW eventhub_broadcasts AS
SELECT event_id FROM eventhub_deliveries INDEXED BY eventhub_deliveries_event WHERE subscriber IS NOT NULL
UNION ALL SELECT event_id FROM eventhub_fanout;
