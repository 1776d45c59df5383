-- name: messages_page
-- The newest of each subscriber and each way a message can stand, merged by id; which ways, :statuses says. What is
-- leased is as much as is in flight and is looked through. The ids of the page are found first and only they are told in
-- full; the indexes are named, and a CROSS JOIN keeps its order.
WITH found (id) AS (
  SELECT d.id FROM carray(:subscribers) w CROSS JOIN (VALUES (0), (2), (3)) s
  CROSS JOIN eventhub_deliveries d ON d.id IN (
    SELECT n.id FROM eventhub_deliveries n INDEXED BY eventhub_deliveries_pending
    WHERE n.subscriber = w.value AND n.subscriber IS NOT NULL AND n.state <> 1 AND n.state <> 4
      AND n.state = s.column1 AND n.id < :before
    ORDER BY n.id DESC LIMIT :limit)
  WHERE 'PENDING' IN (SELECT value FROM carray(:statuses))
  UNION ALL
  SELECT h.id FROM eventhub_deliveries h INDEXED BY eventhub_deliveries_leased
  WHERE 'PROCESSING' IN (SELECT value FROM carray(:statuses))
    AND h.state = 1 AND h.id < :before AND h.subscriber IN (SELECT value FROM carray(:subscribers))
  UNION ALL
  SELECT l.delivery_id FROM carray(:subscribers) w
  CROSS JOIN eventhub_dead_letters l ON l.id IN (
    SELECT n.id FROM eventhub_dead_letters n INDEXED BY eventhub_dead_letters_message
    WHERE n.subscriber = w.value AND n.subscriber IS NOT NULL AND n.retried_at IS NULL AND n.delivery_id < :before
    ORDER BY n.delivery_id DESC LIMIT :limit)
  WHERE 'FAILED' IN (SELECT value FROM carray(:statuses))
  UNION ALL
  SELECT a.delivery_id FROM carray(:subscribers) w
  CROSS JOIN eventhub_attempts a ON a.action = 'COMPLETED' AND a.delivery_id IN (
    SELECT n.delivery_id FROM eventhub_attempts n INDEXED BY eventhub_attempts_delivered
    WHERE n.subscriber = w.value AND n.action = 'COMPLETED' AND n.delivery_id < :before
    ORDER BY n.delivery_id DESC LIMIT :limit)
  WHERE 'COMPLETED' IN (SELECT value FROM carray(:statuses))),
page (id) AS MATERIALIZED (SELECT id FROM found ORDER BY id DESC LIMIT :limit)
SELECT * FROM eventhub_messages WHERE id IN (SELECT id FROM page) ORDER BY id DESC;

-- name: event_messages
-- The messages of one event, as many as it had subscribers: what is open or dead has an index by event, and what was
-- delivered is in the event's log.
SELECT * FROM eventhub_messages
WHERE id IN (
  SELECT d.id FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_event
  WHERE d.event_id = :event_id AND d.subscriber IS NOT NULL
  UNION SELECT l.delivery_id FROM eventhub_dead_letters l INDEXED BY eventhub_dead_letters_event
        WHERE l.event_id = :event_id AND l.subscriber IS NOT NULL AND l.retried_at IS NULL
  UNION SELECT g.delivery_id FROM eventhub_event_log g INDEXED BY eventhub_event_log_event
        WHERE g.event_id = :event_id AND g.action = 'COMPLETED' AND g.delivery_id <> g.event_id)
  AND id < :before AND +status IN (SELECT value FROM carray(:statuses))
  AND (:subscriber IS NULL OR +subscriber = :subscriber)
ORDER BY id DESC LIMIT :limit;

-- name: message
SELECT * FROM eventhub_messages WHERE id = :id;

-- name: message_attempts
SELECT delivery_id, fence, event_id, subscriber, action, created_at, detail FROM eventhub_attempts
WHERE delivery_id = :id ORDER BY fence;

-- name: subscriber_numbers
-- Each number is counted up to :most.
WITH runs (state, messages, oldest) AS MATERIALIZED (
  SELECT s.column1,
         (SELECT count(*) FROM (
            SELECT 1 FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_pending
            WHERE d.subscriber = :subscriber AND d.subscriber IS NOT NULL AND d.state <> 1 AND d.state <> 4
              AND d.state = s.column1 LIMIT :most)),
         (SELECT d.event_id FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_pending
          WHERE d.subscriber = :subscriber AND d.subscriber IS NOT NULL AND d.state <> 1 AND d.state <> 4
            AND d.state = s.column1 ORDER BY d.id LIMIT 1)
  FROM (VALUES (0), (2), (3)) s),
blocked (keys, parked) AS MATERIALIZED (
  SELECT count(*), coalesce(sum(b.state = 4), 0) FROM (
    SELECT d.state FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_blocked
    WHERE d.subscriber = :subscriber AND d.subscriber IS NOT NULL AND d.lane IS NOT NULL AND d.state <> 2
      AND (d.failures > 0 OR d.state = 4)
    LIMIT :most) b),
told (action, attempts, last) AS MATERIALIZED (
  SELECT k.column1,
         (SELECT count(*) FROM (
            SELECT 1 FROM eventhub_attempts a INDEXED BY eventhub_attempts_subscriber
            WHERE a.subscriber = :subscriber AND a.action = k.column1
              AND a.created_at > :now - 3600000000 AND a.created_at <= :now LIMIT :most)),
         (SELECT max(a.created_at) FROM eventhub_attempts a INDEXED BY eventhub_attempts_subscriber
          WHERE a.subscriber = :subscriber AND a.action = k.column1)
  FROM (VALUES ('COMPLETED'), ('FAILED'), ('ABANDONED')) k)
SELECT (SELECT sum(messages) FROM runs), (SELECT messages FROM runs WHERE state = 3),
       (SELECT messages FROM runs WHERE state = 2),
       (SELECT count(*) FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_leased
        WHERE d.state = 1 AND d.subscriber = :subscriber),
       (SELECT count(*) FROM (
          SELECT 1 FROM eventhub_dead_letters l INDEXED BY eventhub_dead_letters_message
          WHERE l.subscriber = :subscriber AND l.subscriber IS NOT NULL AND l.retried_at IS NULL LIMIT :most)),
       blocked.keys, blocked.parked,
       (SELECT (:now - min(e.created_at)) / 1e6 FROM runs r CROSS JOIN eventhub_events e ON e.id = r.oldest),
       (SELECT attempts FROM told WHERE action = 'COMPLETED'),
       (SELECT sum(attempts) FROM told WHERE action <> 'COMPLETED'),
       (SELECT last FROM told WHERE action = 'COMPLETED'), (SELECT max(last) FROM told WHERE action <> 'COMPLETED')
FROM blocked;

-- name: attempt_times
-- How long the last attempts of the hour took; their details are long, so that only some are read.
SELECT json_extract(detail, '$.total_ms') FROM (
  SELECT * FROM (
    SELECT a.created_at, a.detail FROM eventhub_attempts a INDEXED BY eventhub_attempts_subscriber
    WHERE a.subscriber = :subscriber AND a.action = 'COMPLETED'
      AND a.created_at > :now - 3600000000 AND a.created_at <= :now
    ORDER BY a.created_at DESC LIMIT :most)
  UNION ALL SELECT * FROM (
    SELECT a.created_at, a.detail FROM eventhub_attempts a INDEXED BY eventhub_attempts_subscriber
    WHERE a.subscriber = :subscriber AND a.action = 'FAILED'
      AND a.created_at > :now - 3600000000 AND a.created_at <= :now
    ORDER BY a.created_at DESC LIMIT :most))
ORDER BY created_at DESC LIMIT :most;

-- name: blocked_keys
-- By key, from behind :after on. A parked one's last error is in its dead letter; who stands behind is counted up to :most.
SELECT b.key, b.id, b.event_id, b.state, b.attempts, coalesce(l.failures, b.failures),
       json_extract(coalesce(l.errors, b.errors), '$[#-1]'), CASE WHEN b.state = 3 THEN b.due END,
       (SELECT count(*) FROM (SELECT 1 FROM eventhub_deliveries n INDEXED BY eventhub_deliveries_behind
                              WHERE n.lane = b.lane AND n.state = 2 LIMIT :most)), e.created_at
FROM (SELECT * FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_blocked
      WHERE d.subscriber = :subscriber AND d.subscriber IS NOT NULL AND d.lane IS NOT NULL AND d.state <> 2
        AND (d.failures > 0 OR d.state = 4) AND d.key >= coalesce(:after, '') AND (:after IS NULL OR d.key <> :after)
      ORDER BY d.key LIMIT :limit) b
JOIN eventhub_events e ON e.id = b.event_id
LEFT JOIN eventhub_dead_letters l ON l.delivery_id = b.id AND l.retried_at IS NULL
ORDER BY b.key;

-- name: head_of_key
SELECT id FROM eventhub_deliveries WHERE lane = :lane AND lane IS NOT NULL AND state <> 2 AND subscriber = :subscriber;

-- name: open_message
-- Whether an open delivery is a message.
SELECT id FROM eventhub_deliveries WHERE id = :id AND subscriber IS NOT NULL;

-- name: hasten
-- A message that waits for its time need not wait any longer; its counters stay what they are.
UPDATE eventhub_deliveries SET state = 0, due = NULL WHERE id = :id AND subscriber IS NOT NULL AND state = 3
RETURNING event_id, attempts, fence;

-- name: letters_latest
-- The latest deaths that fit. Each way to look has an index of its own: by delivery, by subscriber, or all by age; what
-- else is asked for is judged on the way.
SELECT * FROM eventhub_letters WHERE id IN (
  SELECT n.id FROM (
    SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_latest
    WHERE retried_at IS NULL AND :ids_given = 0 AND :subscriber IS NULL
    UNION ALL
    SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_subscriber
    WHERE retried_at IS NULL AND subscriber IS NOT NULL AND :ids_given = 0 AND subscriber = :subscriber
    UNION ALL
    SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_open
    WHERE retried_at IS NULL AND :ids_given AND delivery_id IN (SELECT value FROM carray(:ids))
      AND (:subscriber IS NULL OR subscriber = :subscriber)) n
  WHERE n.id < :before
    AND (:queue IS NULL OR n.route IN (SELECT q.id FROM eventhub_routes q WHERE q.queue = :queue))
    AND (:type IS NULL OR n.type = :type) AND (:reason IS NULL OR n.reason = :reason)
    AND (:error IS NULL OR instr(json_extract(n.errors, '$[#-1]'), :error) > 0)
    AND (:since IS NULL OR n.dead_at >= :since) AND (:until IS NULL OR n.dead_at <= :until)
  ORDER BY n.id DESC LIMIT :limit OFFSET :offset)
ORDER BY id DESC;

-- name: letters_brief
-- The latest deaths that fit, without their events: :limit of them, and :longest characters of each last error. What they
-- are ordered by must be among the columns, or all would be sorted.
SELECT n.id, n.delivery_id, n.reason, n.type, n.subscriber, n.dead_at, substr(json_extract(n.errors, '$[#-1]'), 1, :longest)
FROM (
  SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_latest
  WHERE retried_at IS NULL AND :ids_given = 0 AND :subscriber IS NULL
  UNION ALL
  SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_subscriber
  WHERE retried_at IS NULL AND subscriber IS NOT NULL AND :ids_given = 0 AND subscriber = :subscriber
  UNION ALL
  SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_open
  WHERE retried_at IS NULL AND :ids_given AND delivery_id IN (SELECT value FROM carray(:ids))
    AND (:subscriber IS NULL OR subscriber = :subscriber)) n
WHERE (:queue IS NULL OR n.route IN (SELECT q.id FROM eventhub_routes q WHERE q.queue = :queue))
  AND (:type IS NULL OR n.type = :type) AND (:reason IS NULL OR n.reason = :reason)
  AND (:error IS NULL OR instr(json_extract(n.errors, '$[#-1]'), :error) > 0)
  AND (:since IS NULL OR n.dead_at >= :since) AND (:until IS NULL OR n.dead_at <= :until)
ORDER BY n.id DESC LIMIT :limit;

-- name: letters_oldest
-- Those that fit, in the order of their deliveries, which is the order of every key: from behind :after on, and none that
-- came after :last. For a retry without those whose subscriber is gone, for nobody would take them, and those that were
-- cancelled, unless they are named.
SELECT n.id, n.delivery_id FROM (
  SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_open
  WHERE retried_at IS NULL AND :ids_given = 0 AND :subscriber IS NULL
  UNION ALL
  SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_message
  WHERE retried_at IS NULL AND subscriber IS NOT NULL AND :ids_given = 0 AND subscriber = :subscriber
  UNION ALL
  SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_open
  WHERE retried_at IS NULL AND :ids_given AND delivery_id IN (SELECT value FROM carray(:ids))
    AND (:subscriber IS NULL OR subscriber = :subscriber)) n
WHERE n.delivery_id > :after AND n.id <= :last
  AND (:queue IS NULL OR n.route IN (SELECT q.id FROM eventhub_routes q WHERE q.queue = :queue))
  AND (:type IS NULL OR n.type = :type) AND (:reason IS NULL OR n.reason = :reason)
  AND (:error IS NULL OR instr(json_extract(n.errors, '$[#-1]'), :error) > 0)
  AND (:since IS NULL OR n.dead_at >= :since) AND (:until IS NULL OR n.dead_at <= :until)
  AND (NOT :retry OR n.subscriber IS NULL OR EXISTS (SELECT 1 FROM eventhub_subscribers s WHERE s.id = n.subscriber))
  AND (NOT :retry OR n.reason <> 'cancelled' OR :ids_given OR :reason IS NOT NULL)
ORDER BY n.delivery_id LIMIT :limit;

-- name: count_fitting
-- How many fit, counted up to :most; a retry leaves out what it does in letters_oldest.
SELECT count(*) FROM (
  SELECT 1 FROM (
    SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_latest
    WHERE retried_at IS NULL AND :ids_given = 0 AND :subscriber IS NULL
    UNION ALL
    SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_message
    WHERE retried_at IS NULL AND subscriber IS NOT NULL AND :ids_given = 0 AND subscriber = :subscriber
    UNION ALL
    SELECT * FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_open
    WHERE retried_at IS NULL AND :ids_given AND delivery_id IN (SELECT value FROM carray(:ids))
      AND (:subscriber IS NULL OR subscriber = :subscriber)) n
  WHERE (:queue IS NULL OR n.route IN (SELECT q.id FROM eventhub_routes q WHERE q.queue = :queue))
    AND (:type IS NULL OR n.type = :type) AND (:reason IS NULL OR n.reason = :reason)
    AND (:error IS NULL OR instr(json_extract(n.errors, '$[#-1]'), :error) > 0)
    AND (:since IS NULL OR n.dead_at >= :since) AND (:until IS NULL OR n.dead_at <= :until)
    AND (NOT :retry OR n.subscriber IS NULL OR EXISTS (SELECT 1 FROM eventhub_subscribers s WHERE s.id = n.subscriber))
    AND (NOT :retry OR n.reason <> 'cancelled' OR :ids_given OR :reason IS NOT NULL)
  LIMIT :most);

-- name: last_letter
-- Letters that come later have higher numbers.
SELECT coalesce(max(id), 0) FROM eventhub_dead_letters;

-- name: letter
-- The open letter of a delivery, or the last that was retried: that one is found by its event, which the message has on
-- its way or in its story, and which work has for its own number.
SELECT * FROM eventhub_letters WHERE id = coalesce(
  (SELECT o.id FROM eventhub_dead_letters o WHERE o.delivery_id = :id AND o.retried_at IS NULL),
  (SELECT max(o.id) FROM eventhub_dead_letters o INDEXED BY eventhub_dead_letters_event
   WHERE o.delivery_id = :id
     AND o.event_id = coalesce((SELECT d.event_id FROM eventhub_deliveries d WHERE d.id = :id),
                               (SELECT a.event_id FROM eventhub_attempts a WHERE a.delivery_id = :id LIMIT 1), :id)));

-- name: unannounced
-- Letters of which nobody was told yet.
SELECT * FROM eventhub_letters
WHERE id IN (SELECT id FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_unannounced WHERE NOT announced
             ORDER BY id LIMIT :limit)
ORDER BY id;

-- name: mark_announced
UPDATE eventhub_dead_letters SET announced = 1 WHERE id IN (SELECT value FROM carray(:ids));

-- name: prune_attempts
-- The oldest first, subscriber by subscriber and action by action, each of which is stepped to in the index: there is
-- none by age alone, for every attempt would have to pay for it.
WITH RECURSIVE whose (subscriber) AS (
  SELECT min(subscriber) FROM eventhub_attempts
  UNION ALL
  SELECT (SELECT min(a.subscriber) FROM eventhub_attempts a WHERE a.subscriber > w.subscriber)
  FROM whose w WHERE w.subscriber IS NOT NULL),
kind (subscriber, action) AS (
  SELECT w.subscriber, (SELECT min(a.action) FROM eventhub_attempts a WHERE a.subscriber = w.subscriber)
  FROM whose w WHERE w.subscriber IS NOT NULL
  UNION ALL
  SELECT k.subscriber, (SELECT min(a.action) FROM eventhub_attempts a
                        WHERE a.subscriber = k.subscriber AND a.action > k.action)
  FROM kind k WHERE k.action IS NOT NULL)
DELETE FROM eventhub_attempts WHERE (delivery_id, fence) IN (
  SELECT a.delivery_id, a.fence FROM kind k
  CROSS JOIN eventhub_attempts a INDEXED BY eventhub_attempts_subscriber
    ON a.subscriber = k.subscriber AND a.action = k.action AND a.created_at < :before
  LIMIT :limit)
RETURNING 1;

-- name: backlogs
-- What waits for each subscriber, counted up to :most: those with the most first.
SELECT w.id, (SELECT count(*) FROM (
         SELECT 1 FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_pending
         WHERE d.subscriber = w.id AND d.subscriber IS NOT NULL AND d.state <> 1 AND d.state <> 4 LIMIT :most)) AS messages
FROM eventhub_subscribers w ORDER BY messages DESC, w.id LIMIT :limit;

-- name: standstill
-- Keys of subscribers that stand still and those of them that are parked, the same of queues, and the dead letter queue.
SELECT messages.blocked, messages.parked, work.blocked, work.parked,
       (SELECT count(*) FROM (SELECT 1 FROM eventhub_dead_letters INDEXED BY eventhub_dead_letters_latest
                              WHERE retried_at IS NULL LIMIT :most))
FROM (SELECT count(*) AS blocked, coalesce(sum(b.state = 4), 0) AS parked FROM (
        SELECT d.state FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_blocked
        WHERE d.subscriber IS NOT NULL AND d.lane IS NOT NULL AND d.state <> 2 AND (d.failures > 0 OR d.state = 4)
        LIMIT :most) b) messages,
     (SELECT count(*) AS blocked, coalesce(sum(b.state = 4), 0) AS parked FROM (
        SELECT d.state FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_blocked_work
        WHERE d.subscriber IS NULL AND d.lane IS NOT NULL AND d.state <> 2 AND (d.failures > 0 OR d.state = 4)
        LIMIT :most) b) work;
