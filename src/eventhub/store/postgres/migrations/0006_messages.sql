-- Messages as people see and operate them: pages that cost the same however much there is, and keys that stand still.

-- What is open for a subscriber and in nobody's hands, newest last; one index entry when a message is made, none when it
-- is claimed. Each state has a run of its own, so that it can be counted by itself.
CREATE INDEX deliveries_pending ON eventhub.deliveries (subscriber, state, id)
  WHERE subscriber IS NOT NULL AND state <> 1 AND state <> 4;
-- Heads that have failed or are parked; a message that gets through at once is never in it. Read by key, in an order
-- that does not depend on the database's language.
CREATE INDEX deliveries_blocked ON eventhub.deliveries (subscriber, key COLLATE "C")
  WHERE subscriber IS NOT NULL AND lane IS NOT NULL AND state <> 2 AND (failures > 0 OR state = 4);

-- The messages that reached a subscriber, newest last. By an expression, here and below, so that no other index is in part
-- in the same order, and the planner cannot take one of those and sort the rest.
CREATE INDEX attempts_delivered ON eventhub.attempts ((subscriber + 0), delivery_id) WHERE action = 'COMPLETED';
-- Successes and failures apart, so that the last of either is found at once.
DROP INDEX eventhub.attempts_subscriber;
CREATE INDEX attempts_subscriber ON eventhub.attempts (subscriber, action, created_at);

-- The dead letter queue by hour of death, and a subscriber's dead messages in the order of its other messages.
CREATE INDEX dead_letters_latest ON eventhub.dead_letters (id) WHERE retried_at IS NULL;
CREATE INDEX dead_letters_message ON eventhub.dead_letters ((subscriber + 0), delivery_id)
  WHERE retried_at IS NULL AND subscriber IS NOT NULL;

-- A message wherever it stands: open, dead, or delivered. All attempts but the last of one that was delivered have
-- failed. One that was cancelled is in the log only. Ask for one id at a time: what is added to a state or an action keeps
-- the indexes of lists out of that.
CREATE VIEW eventhub.messages AS
SELECT d.id, d.event_id, d.subscriber, e.type, d.state,
       CASE d.state WHEN 1 THEN 'PROCESSING' ELSE 'PENDING' END AS status, d.attempts, d.failures, d.max_attempts,
       coalesce(d.key, e.ordering_key) AS key, d.worker, d.due, d.errors, e.created_at, NULL::timestamptz AS settled_at
FROM eventhub.deliveries d JOIN eventhub.events e ON e.id = d.event_id
WHERE d.subscriber IS NOT NULL AND d.state + 0 <> 4
UNION ALL
SELECT l.delivery_id, l.event_id, l.subscriber, l.type, NULL, 'FAILED', l.attempts, l.failures, l.max_attempts,
       coalesce(l.key, l.ordering_key), NULL, NULL, l.errors, l.created_at, l.dead_at
FROM eventhub.dead_letters l WHERE l.subscriber IS NOT NULL AND l.retried_at IS NULL
UNION ALL
SELECT a.delivery_id, a.event_id, a.subscriber, coalesce(e.type, ''), NULL, 'COMPLETED',
       coalesce((a.detail ->> 'attempt')::integer, 1), coalesce((a.detail ->> 'attempt')::integer - 1, 0),
       NULL, e.ordering_key, NULL, NULL, NULL, coalesce(e.created_at, a.created_at), a.created_at
FROM eventhub.attempts a LEFT JOIN eventhub.events e ON e.id = a.event_id WHERE a.action || '' = 'COMPLETED';

-- A dead letter in full, with whether it still holds its key.
CREATE VIEW eventhub.letters AS
SELECT l.event_id, l.type, l.payload, l.metadata, l.tags, l.title, l.description,
       coalesce(l.key, l.ordering_key) AS ordering_key, l.idempotency_key, l.created_at, l.status, l.attempts, l.failures,
       l.errors, l.dead_at, l.reason, r.queue, l.worker, l.retried_at, l.retried_by, l.id, l.delivery_id, l.subscriber,
       l.consumer, l.max_attempts,
       EXISTS (SELECT 1 FROM eventhub.deliveries d WHERE d.id = l.delivery_id AND d.state + 0 = 4) AS parked
FROM eventhub.dead_letters l JOIN eventhub.routes r ON r.id = l.route;
