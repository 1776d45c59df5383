-- name: ready
-- The first of each route, merged by age: the rest of the backlog is not looked at.
SELECT d.id, e.type, d.handlers, d.owner, d.fence > 0
FROM eventhub_routes r
CROSS JOIN eventhub_deliveries d ON d.id IN (SELECT n.id FROM eventhub_deliveries n
                                             WHERE n.state = 0 AND n.route = r.id AND n.event_id > :after_id
                                             ORDER BY n.event_id LIMIT :limit)
CROSS JOIN eventhub_events e ON e.id = d.event_id
WHERE r.queue = :queue AND r.retired = 0 ORDER BY d.event_id LIMIT :limit;

-- name: event
SELECT s.*, (SELECT e.published_by FROM eventhub_events e WHERE e.id = s.id) FROM eventhub_event_states s WHERE s.id = :id;

-- name: event_tags
-- What kind of work events are, without their payloads.
SELECT id, tags FROM eventhub_events WHERE id IN (SELECT value FROM carray(:ids));

-- name: log
SELECT id, event_id, delivery_id, action, worker, attempt, fence, status_code, error, execution_ms, created_at,
       subscriber
FROM eventhub_event_log WHERE event_id = :event_id ORDER BY id;

-- name: count_open
-- The numbers of a queue are those of its events and of the work on them; messages are counted by subscriber.
SELECT r.queue, o.state, count(*) FROM eventhub_open_events o JOIN eventhub_routes r ON r.id = o.route
GROUP BY r.queue, o.state;

-- name: count_dead
SELECT r.queue, d.status, count(*) FROM eventhub_dead_events d JOIN eventhub_routes r ON r.id = d.route
GROUP BY r.queue, d.status;

-- name: count_events
SELECT r.queue, count(*) FROM eventhub_events e JOIN eventhub_routes r ON r.id = e.route GROUP BY r.queue;

-- name: ages
-- How long ago the open events were published, in buckets.
SELECT r.queue, CASE WHEN :now - e.created_at < 1000000 THEN '<1s' WHEN :now - e.created_at < 10000000 THEN '<10s'
                     WHEN :now - e.created_at < 60000000 THEN '<1m' WHEN :now - e.created_at < 600000000 THEN '<10m'
                     WHEN :now - e.created_at < 3600000000 THEN '<1h' ELSE '>=1h' END AS age,
       count(*), (:now - min(e.created_at)) / 1e6
FROM eventhub_open_events o JOIN eventhub_events e ON e.id = o.id JOIN eventhub_routes r ON r.id = o.route
GROUP BY r.queue, age;

-- name: attempts
SELECT r.queue, d.attempts, count(*) FROM eventhub_deliveries d JOIN eventhub_routes r ON r.id = d.route
WHERE d.state <> 4 AND d.subscriber IS NULL GROUP BY r.queue, d.attempts;

-- name: count_results
SELECT r.queue, h.kind, count(*) FROM eventhub_handler_results h JOIN eventhub_events e ON e.id = h.event_id
JOIN eventhub_routes r ON r.id = e.route GROUP BY r.queue, h.kind;

-- name: recent_ends
-- The work in the last ten thousand log rows tells latency and failure rate, whatever the log's length. What nobody
-- wanted was completed without an attempt, and tells neither.
SELECT r.queue, g.action, (g.created_at - e.created_at) / 1e6
FROM (SELECT event_id, delivery_id, action, attempt, created_at FROM eventhub_event_log ORDER BY id DESC LIMIT 10000) g
JOIN eventhub_events e ON e.id = g.event_id JOIN eventhub_routes r ON r.id = e.route
WHERE g.action IN ('COMPLETED', 'FAILED', 'ABANDONED') AND g.delivery_id = g.event_id AND g.attempt > 0;
