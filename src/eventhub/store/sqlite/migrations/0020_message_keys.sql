-- The key that a message's order went by is told after it was delivered, too. Older rows do not know it.
ALTER TABLE eventhub_attempts ADD COLUMN key TEXT;

-- As before but for that key. What was cancelled is dead.
DROP VIEW eventhub_messages;
CREATE VIEW eventhub_messages AS
SELECT d.id, d.event_id, d.subscriber, e.type, d.state,
       CASE d.state WHEN 1 THEN 'PROCESSING' ELSE 'PENDING' END AS status, d.attempts, d.failures, d.max_attempts,
       coalesce(d.key, e.ordering_key) AS key, d.worker, d.due, d.errors, e.created_at, NULL AS settled_at
FROM eventhub_deliveries d NOT INDEXED JOIN eventhub_events e ON e.id = d.event_id
WHERE d.subscriber IS NOT NULL AND d.state <> 4
UNION ALL
SELECT l.delivery_id, l.event_id, l.subscriber, l.type, NULL, 'FAILED', l.attempts, l.failures, l.max_attempts,
       coalesce(l.key, l.ordering_key), NULL, NULL, l.errors, l.created_at, l.dead_at
FROM eventhub_dead_letters l INDEXED BY eventhub_dead_letters_open
WHERE l.subscriber IS NOT NULL AND l.retried_at IS NULL
UNION ALL
SELECT a.delivery_id, a.event_id, a.subscriber, coalesce(e.type, ''), NULL, 'COMPLETED',
       coalesce(json_extract(a.detail, '$.attempt'), 1), coalesce(json_extract(a.detail, '$.attempt') - 1, 0),
       NULL, coalesce(a.key, e.ordering_key), NULL, NULL, NULL, coalesce(e.created_at, a.created_at), a.created_at
FROM eventhub_attempts a LEFT JOIN eventhub_events e ON e.id = a.event_id WHERE +a.action = 'COMPLETED';
