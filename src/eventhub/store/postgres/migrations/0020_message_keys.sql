-- The key that a message's order went by is told after it was delivered, too. Older rows do not know it.
ALTER TABLE eventhub.attempts ADD COLUMN key text;

-- As before but for that key. What was cancelled is dead.
DROP VIEW eventhub.messages;
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
       NULL, coalesce(a.key, e.ordering_key), NULL, NULL, NULL, coalesce(e.created_at, a.created_at), a.created_at
FROM eventhub.attempts a LEFT JOIN eventhub.events e ON e.id = a.event_id WHERE a.action || '' = 'COMPLETED';
