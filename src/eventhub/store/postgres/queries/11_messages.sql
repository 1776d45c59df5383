-- name: messages_page
-- The newest of each subscriber and each way a message can stand, merged by id; which ways, $4 says. Whole rows are
-- compared so that only the one index gives the order, whatever the statistics say. What is leased is as much as is in
-- flight and is looked through. The ids of the page are found first and only they are told in full.
WITH whose AS MATERIALIZED (SELECT w.subscriber FROM unnest($1::bigint[]) AS w(subscriber)),
leased AS MATERIALIZED (
  SELECT d.id, d.subscriber FROM eventhub.deliveries d
  WHERE 'PROCESSING' = ANY ($4::text[]) AND d.state = 1 AND d.subscriber IS NOT NULL ORDER BY d.due),
found AS MATERIALIZED (
  SELECT c.id FROM whose w CROSS JOIN (VALUES (0::smallint), (2), (3)) AS s(state)
  CROSS JOIN LATERAL (
    SELECT d.id FROM eventhub.deliveries d
    WHERE 'PENDING' = ANY ($4::text[]) AND d.subscriber IS NOT NULL AND d.state <> 1 AND d.state <> 4
      AND (d.subscriber, d.state) >= (w.subscriber, s.state)
      AND (d.subscriber, d.state, d.id) < (w.subscriber, s.state, $2)
    ORDER BY d.subscriber DESC, d.state DESC, d.id DESC LIMIT $3) c
  UNION ALL
  SELECT h.id FROM leased h WHERE h.id < $2 AND h.subscriber = ANY ($1)
  UNION ALL
  SELECT c.delivery_id FROM whose w
  CROSS JOIN LATERAL (
    SELECT l.delivery_id FROM eventhub.dead_letters l
    WHERE 'FAILED' = ANY ($4::text[]) AND l.retried_at IS NULL AND l.subscriber IS NOT NULL
      AND l.subscriber + 0 >= w.subscriber AND (l.subscriber + 0, l.delivery_id) < (w.subscriber, $2)
    ORDER BY l.subscriber + 0 DESC, l.delivery_id DESC LIMIT $3) c
  UNION ALL
  SELECT c.delivery_id FROM whose w
  CROSS JOIN LATERAL (
    SELECT a.delivery_id FROM eventhub.attempts a
    WHERE 'COMPLETED' = ANY ($4::text[]) AND a.action = 'COMPLETED'
      AND a.subscriber + 0 >= w.subscriber AND (a.subscriber + 0, a.delivery_id) < (w.subscriber, $2)
    ORDER BY a.subscriber + 0 DESC, a.delivery_id DESC LIMIT $3) c)
SELECT m.* FROM (SELECT id FROM found ORDER BY id DESC LIMIT $3) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.messages v WHERE v.id = f.id OFFSET 0) m ORDER BY m.id DESC;

-- name: event_messages
-- The messages of one event, as many as it had subscribers: what is open or dead has an index by event, and what was
-- delivered is in the event's log.
SELECT m.* FROM (
  SELECT d.id FROM eventhub.deliveries d WHERE d.event_id = $1 AND d.subscriber IS NOT NULL
  UNION SELECT l.delivery_id FROM eventhub.dead_letters l
        WHERE l.event_id = $1 AND l.subscriber IS NOT NULL AND l.retried_at IS NULL
  UNION SELECT g.delivery_id FROM eventhub.event_log g
        WHERE g.event_id = $1 AND g.action = 'COMPLETED' AND g.delivery_id <> g.event_id) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.messages v WHERE v.id = f.id OFFSET 0) m
WHERE m.id < $2 AND m.status = ANY ($4::text[]) AND ($5::bigint IS NULL OR m.subscriber = $5)
ORDER BY m.id DESC LIMIT $3;

-- name: message
SELECT * FROM eventhub.messages WHERE id = $1;

-- name: message_attempts
SELECT delivery_id, fence, event_id, subscriber, action, created_at, detail FROM eventhub.attempts
WHERE delivery_id = $1 ORDER BY fence;

-- name: subscriber_numbers
-- Each number is counted up to $2. Whole rows are compared for the same reason as in a page.
WITH runs AS MATERIALIZED (
  SELECT s.state, (SELECT count(*) FROM (
           SELECT 1 FROM eventhub.deliveries d
           WHERE d.subscriber IS NOT NULL AND d.state <> 1 AND d.state <> 4
             AND (d.subscriber, d.state) >= ($1, s.state) AND (d.subscriber, d.state) <= ($1, s.state)
           ORDER BY d.subscriber, d.state, d.id LIMIT $2) c) AS messages,
         (SELECT d.event_id FROM eventhub.deliveries d
          WHERE d.subscriber IS NOT NULL AND d.state <> 1 AND d.state <> 4
            AND (d.subscriber, d.state) >= ($1, s.state) AND (d.subscriber, d.state) <= ($1, s.state)
          ORDER BY d.subscriber, d.state, d.id LIMIT 1) AS oldest
  FROM (VALUES (0::smallint), (2), (3)) AS s(state)),
held AS MATERIALIZED (
  SELECT count(*) FILTER (WHERE d.subscriber = $1) AS messages FROM (
    SELECT subscriber FROM eventhub.deliveries WHERE state = 1 ORDER BY due) d),
blocked AS MATERIALIZED (
  SELECT count(*) AS keys, count(*) FILTER (WHERE b.state = 4) AS parked FROM (
    SELECT d.state FROM eventhub.deliveries d
    WHERE d.subscriber IS NOT NULL AND d.lane IS NOT NULL AND d.state <> 2 AND (d.failures > 0 OR d.state = 4)
      AND d.subscriber >= $1 AND d.subscriber <= $1
    ORDER BY d.subscriber, d.key COLLATE "C" LIMIT $2) b),
dead AS MATERIALIZED (
  SELECT count(*) AS letters FROM (
    SELECT 1 FROM eventhub.dead_letters l
    WHERE l.retried_at IS NULL AND l.subscriber IS NOT NULL AND l.subscriber + 0 >= $1 AND l.subscriber + 0 <= $1
    ORDER BY l.subscriber + 0, l.delivery_id LIMIT $2) c),
told AS MATERIALIZED (
  SELECT k.action,
         (SELECT count(*) FROM (
            SELECT 1 FROM eventhub.attempts a
            WHERE a.subscriber = $1 AND a.action = k.action
              AND a.created_at > coalesce($3, now()) - interval '1 hour' AND a.created_at <= coalesce($3, now())
            ORDER BY a.subscriber, a.action, a.created_at LIMIT $2) c) AS attempts,
         (SELECT max(a.created_at) FROM eventhub.attempts a WHERE a.subscriber = $1 AND a.action = k.action) AS last
  FROM (VALUES ('COMPLETED'), ('FAILED'), ('ABANDONED')) AS k(action))
SELECT (SELECT sum(messages)::bigint FROM runs), (SELECT messages FROM runs WHERE state = 3),
       (SELECT messages FROM runs WHERE state = 2), held.messages, dead.letters, blocked.keys, blocked.parked,
       (SELECT extract(epoch FROM coalesce($3, now()) - min(e.created_at))::float8
        FROM runs r JOIN eventhub.events e ON e.id = r.oldest),
       (SELECT attempts FROM told WHERE action = 'COMPLETED'),
       (SELECT sum(attempts)::bigint FROM told WHERE action <> 'COMPLETED'),
       (SELECT last FROM told WHERE action = 'COMPLETED'), (SELECT max(last) FROM told WHERE action <> 'COMPLETED')
FROM held, blocked, dead;

-- name: attempt_times
-- How long the last attempts of the hour took; their details are long, so that only some are read.
SELECT t.detail ->> 'total_ms' FROM (VALUES ('COMPLETED'), ('FAILED')) AS k(action)
CROSS JOIN LATERAL (
  SELECT a.created_at, a.detail FROM eventhub.attempts a
  WHERE a.subscriber = $1 AND a.action = k.action
    AND a.created_at > coalesce($3, now()) - interval '1 hour' AND a.created_at <= coalesce($3, now())
  ORDER BY a.subscriber DESC, a.action DESC, a.created_at DESC LIMIT $2) t
ORDER BY t.created_at DESC LIMIT $2;

-- name: blocked_keys
-- By key, from behind $2 on; whole rows are compared for the same reason as in a page. A parked one's last error is in its
-- dead letter; who stands behind is counted up to $4.
SELECT b.key, b.id, b.event_id, b.state, b.attempts, coalesce(l.failures, b.failures),
       coalesce(l.errors, b.errors) ->> -1, CASE WHEN b.state = 3 THEN b.due END,
       (SELECT count(*) FROM (SELECT 1 FROM eventhub.deliveries n WHERE n.lane = b.lane AND n.state = 2 LIMIT $4) c),
       e.created_at
FROM (SELECT * FROM eventhub.deliveries d
      WHERE d.subscriber IS NOT NULL AND d.lane IS NOT NULL AND d.state <> 2 AND (d.failures > 0 OR d.state = 4)
        AND (d.subscriber, d.key COLLATE "C") >= ($1, coalesce($2, '')) AND d.subscriber <= $1
        AND ($2::text IS NULL OR d.key <> $2)
      ORDER BY d.subscriber, d.key COLLATE "C" LIMIT $3) b
JOIN eventhub.events e ON e.id = b.event_id
LEFT JOIN eventhub.dead_letters l ON l.delivery_id = b.id AND l.retried_at IS NULL
ORDER BY b.key COLLATE "C";

-- name: head_of_key
SELECT id, event_id, fence, state, lane, attempts FROM eventhub.deliveries
WHERE lane = $1 AND lane IS NOT NULL AND state <> 2 AND subscriber = $2;

-- name: open_message
-- How a message stands, if it is open.
SELECT id, event_id, fence, state, lane, attempts FROM eventhub.deliveries WHERE id = $1 AND subscriber IS NOT NULL;

-- name: hasten
-- A message that waits for its time need not wait any longer; its counters stay what they are.
WITH freed AS (
  UPDATE eventhub.deliveries SET state = 0, due = NULL WHERE id = $1 AND subscriber IS NOT NULL AND state + 0 = 3
  RETURNING id, route, event_id, attempts, fence),
logged AS (
  INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
  SELECT event_id, id, 'RETRIED', $2, attempts, fence, coalesce($3, now()) FROM freed)
SELECT route, event_id FROM freed;

-- name: log_operator
-- Who decided about a message; what came of it is written beside it.
INSERT INTO eventhub.event_log (event_id, delivery_id, action, worker, attempt, fence, error, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, coalesce($8, now()));

-- name: plan_afresh
-- For the next statements of the transaction: what a filter leaves out is left out of the plan, which a plan for all
-- filters at once cannot do.
SET LOCAL plan_cache_mode = force_custom_plan;

-- name: letters_latest
-- The latest deaths that fit: all, a subscriber's and chosen ones have an index each, what else is asked for is judged
-- on the way.
SELECT v.* FROM (
  SELECT n.id FROM eventhub.dead_letters n
  WHERE n.retried_at IS NULL AND n.id < $9
    AND ($1::bigint[] IS NULL OR n.delivery_id = ANY ($1)) AND ($3::bigint IS NULL OR n.subscriber = $3)
    AND ($2::text IS NULL OR n.route = ANY (ARRAY (SELECT q.id FROM eventhub.routes q WHERE q.queue = $2)))
    AND ($4::text IS NULL OR n.type = $4) AND ($5::text IS NULL OR n.reason = $5)
    AND ($6::text IS NULL OR strpos(n.errors ->> -1, $6) > 0)
    AND ($7::timestamptz IS NULL OR n.dead_at >= $7) AND ($8::timestamptz IS NULL OR n.dead_at <= $8)
  ORDER BY n.id DESC LIMIT $10 OFFSET $11) f
CROSS JOIN LATERAL (SELECT * FROM eventhub.letters l WHERE l.id = f.id OFFSET 0) v ORDER BY v.id DESC;

-- name: letters_brief
-- The latest deaths that fit, without their events: $9 of them, and $10 characters of each last error.
SELECT n.delivery_id, n.reason, n.type, n.subscriber, n.dead_at, left(n.errors ->> -1, $10)
FROM eventhub.dead_letters n
WHERE n.retried_at IS NULL
  AND ($1::bigint[] IS NULL OR n.delivery_id = ANY ($1)) AND ($3::bigint IS NULL OR n.subscriber = $3)
  AND ($2::text IS NULL OR n.route = ANY (ARRAY (SELECT q.id FROM eventhub.routes q WHERE q.queue = $2)))
  AND ($4::text IS NULL OR n.type = $4) AND ($5::text IS NULL OR n.reason = $5)
  AND ($6::text IS NULL OR strpos(n.errors ->> -1, $6) > 0)
  AND ($7::timestamptz IS NULL OR n.dead_at >= $7) AND ($8::timestamptz IS NULL OR n.dead_at <= $8)
ORDER BY n.id DESC LIMIT $9;

-- name: letters_oldest
-- Those that fit, in the order of their deliveries, which is the order of every key: from behind $9 on, and none that
-- came after $10. With $12 without those whose subscriber is gone, for nobody would take what is retried, and those that
-- were cancelled, unless they are named.
SELECT n.id, n.delivery_id FROM eventhub.dead_letters n
WHERE n.retried_at IS NULL AND n.delivery_id > $9 AND n.id + 0 <= $10
  AND ($1::bigint[] IS NULL OR n.delivery_id = ANY ($1)) AND ($3::bigint IS NULL OR n.subscriber + 0 = $3)
  AND ($2::text IS NULL OR n.route = ANY (ARRAY (SELECT q.id FROM eventhub.routes q WHERE q.queue = $2)))
  AND ($4::text IS NULL OR n.type = $4) AND ($5::text IS NULL OR n.reason = $5)
  AND ($6::text IS NULL OR strpos(n.errors ->> -1, $6) > 0)
  AND ($7::timestamptz IS NULL OR n.dead_at >= $7) AND ($8::timestamptz IS NULL OR n.dead_at <= $8)
  AND (NOT $12::boolean OR n.subscriber IS NULL
       OR EXISTS (SELECT 1 FROM eventhub.subscribers s WHERE s.id = n.subscriber))
  AND (NOT $12::boolean OR n.reason <> 'cancelled' OR $1::bigint[] IS NOT NULL OR $5::text IS NOT NULL)
ORDER BY n.delivery_id LIMIT $11;

-- name: count_fitting
-- How many fit, counted up to $9; $10 is what $12 is in letters_oldest.
SELECT count(*) FROM (
  SELECT 1 FROM eventhub.dead_letters n
  WHERE n.retried_at IS NULL
    AND ($1::bigint[] IS NULL OR n.delivery_id = ANY ($1)) AND ($3::bigint IS NULL OR n.subscriber = $3)
    AND ($2::text IS NULL OR n.route = ANY (ARRAY (SELECT q.id FROM eventhub.routes q WHERE q.queue = $2)))
    AND ($4::text IS NULL OR n.type = $4) AND ($5::text IS NULL OR n.reason = $5)
    AND ($6::text IS NULL OR strpos(n.errors ->> -1, $6) > 0)
    AND ($7::timestamptz IS NULL OR n.dead_at >= $7) AND ($8::timestamptz IS NULL OR n.dead_at <= $8)
    AND (NOT $10::boolean OR n.subscriber IS NULL
         OR EXISTS (SELECT 1 FROM eventhub.subscribers s WHERE s.id = n.subscriber))
    AND (NOT $10::boolean OR n.reason <> 'cancelled' OR $1::bigint[] IS NOT NULL OR $5::text IS NOT NULL)
  LIMIT $9) c;

-- name: last_letter
-- Letters that come later have higher numbers.
SELECT coalesce(max(id), 0) FROM eventhub.dead_letters;

-- name: letter
-- The open letter of a delivery, or the last that was retried: that one is found by its event, which the message has on
-- its way or in its story, and which work has for its own number.
SELECT * FROM eventhub.letters WHERE id = coalesce(
  (SELECT o.id FROM eventhub.dead_letters o WHERE o.delivery_id = $1 AND o.retried_at IS NULL),
  (SELECT max(o.id) FROM eventhub.dead_letters o
   WHERE o.delivery_id = $1
     AND o.event_id = coalesce((SELECT d.event_id FROM eventhub.deliveries d WHERE d.id = $1),
                               (SELECT a.event_id FROM eventhub.attempts a WHERE a.delivery_id = $1 LIMIT 1), $1)));

-- name: unannounced
-- Letters of which nobody was told yet; several who tell never take the same.
WITH pick AS MATERIALIZED (
  SELECT id FROM eventhub.dead_letters WHERE NOT announced ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
SELECT v.* FROM pick p
CROSS JOIN LATERAL (SELECT * FROM eventhub.letters l WHERE l.id = p.id OFFSET 0) v ORDER BY v.id;

-- name: mark_announced
UPDATE eventhub.dead_letters SET announced = true WHERE id = ANY ($1::bigint[]);

-- name: prune_attempts
-- The oldest first, subscriber by subscriber and action by action, each of which is stepped to in the index: there is
-- none by age alone, for every attempt would have to pay for it.
WITH RECURSIVE whose (subscriber) AS (
  SELECT min(subscriber) FROM eventhub.attempts
  UNION ALL
  SELECT (SELECT min(a.subscriber) FROM eventhub.attempts a WHERE a.subscriber > w.subscriber)
  FROM whose w WHERE w.subscriber IS NOT NULL),
kind (subscriber, action) AS (
  SELECT w.subscriber, (SELECT min(a.action) FROM eventhub.attempts a WHERE a.subscriber = w.subscriber)
  FROM whose w WHERE w.subscriber IS NOT NULL
  UNION ALL
  SELECT k.subscriber, (SELECT min(a.action) FROM eventhub.attempts a
                        WHERE a.subscriber = k.subscriber AND a.action > k.action)
  FROM kind k WHERE k.action IS NOT NULL),
old AS MATERIALIZED (
  SELECT o.tid FROM kind k
  CROSS JOIN LATERAL (
    SELECT a.ctid AS tid FROM eventhub.attempts a
    WHERE a.subscriber = k.subscriber AND a.action = k.action AND a.created_at < coalesce($3, now()) - $1::interval
    ORDER BY a.subscriber, a.action, a.created_at LIMIT $2) o
  LIMIT $2),
gone AS (DELETE FROM eventhub.attempts WHERE ctid = ANY (ARRAY (SELECT tid FROM old)) RETURNING 1)
SELECT count(*) FROM gone;

-- name: backlogs
-- What waits for each subscriber, counted up to $1: those with the most first.
SELECT w.id, (SELECT count(*) FROM (
         SELECT 1 FROM eventhub.deliveries d
         WHERE d.subscriber IS NOT NULL AND d.state <> 1 AND d.state <> 4 AND d.subscriber >= w.id AND d.subscriber <= w.id
         ORDER BY d.subscriber, d.state, d.id LIMIT $1) c) AS messages
FROM eventhub.subscribers w ORDER BY messages DESC, w.id LIMIT $2;

-- name: standstill
-- Keys of subscribers that stand still and those of them that are parked, the same of queues, and the dead letter queue.
SELECT messages.blocked, messages.parked, work.blocked, work.parked,
       (SELECT count(*) FROM (SELECT 1 FROM eventhub.dead_letters WHERE retried_at IS NULL ORDER BY id LIMIT $1) c)
FROM (SELECT count(*) AS blocked, count(*) FILTER (WHERE b.state = 4) AS parked FROM (
        SELECT d.state FROM eventhub.deliveries d
        WHERE d.subscriber IS NOT NULL AND d.lane IS NOT NULL AND d.state <> 2 AND (d.failures > 0 OR d.state = 4)
        ORDER BY d.subscriber, d.key COLLATE "C" LIMIT $1) b) messages,
     (SELECT count(*) AS blocked, count(*) FILTER (WHERE b.state = 4) AS parked FROM (
        SELECT d.state FROM eventhub.deliveries d
        WHERE d.subscriber IS NULL AND d.lane IS NOT NULL AND d.state <> 2 AND (d.failures > 0 OR d.state = 4)
        ORDER BY d.lane LIMIT $1) b) work;
