-- name: ready
-- The first of each route, merged by age: the rest of the backlog is not looked at.
SELECT f.id, e.type, f.handlers, f.owner, f.fence > 0
FROM (SELECT d.* FROM eventhub.routes r
      CROSS JOIN LATERAL (SELECT n.id, n.event_id, n.handlers, n.owner, n.fence FROM eventhub.deliveries n
                          WHERE n.state = 0 AND n.route = r.id AND n.event_id > $2
                          ORDER BY n.event_id LIMIT $3) d
      WHERE r.queue = $1 AND NOT r.retired ORDER BY d.event_id LIMIT $3) f
JOIN eventhub.events e ON e.id = f.event_id ORDER BY f.event_id;

-- name: event
SELECT s.*, (SELECT e.published_by FROM eventhub.events e WHERE e.id = s.id) FROM eventhub.event_states s WHERE s.id = $1;

-- name: event_tags
-- What kind of work events are, without their payloads.
SELECT id, tags FROM eventhub.events WHERE id = ANY ($1::bigint[]);

-- name: log
SELECT id, event_id, delivery_id, action, worker, attempt, fence, status_code, error, execution_ms, created_at,
       subscriber
FROM eventhub.event_log WHERE event_id = $1 ORDER BY id;

-- name: count_open
-- The numbers of a queue are those of its events and of the work on them; messages are counted by subscriber.
SELECT r.queue, o.state, count(*) FROM eventhub.open_events o JOIN eventhub.routes r ON r.id = o.route
GROUP BY r.queue, o.state;

-- name: count_dead
SELECT r.queue, d.status, count(*) FROM eventhub.dead_events d JOIN eventhub.routes r ON r.id = d.route
GROUP BY r.queue, d.status;

-- name: count_events
SELECT r.queue, count(*) FROM eventhub.events e JOIN eventhub.routes r ON r.id = e.route GROUP BY r.queue;

-- name: ages
-- How long ago the open events were published, in buckets.
SELECT r.queue, CASE WHEN now() - e.created_at < interval '1 second' THEN '<1s'
                     WHEN now() - e.created_at < interval '10 seconds' THEN '<10s'
                     WHEN now() - e.created_at < interval '1 minute' THEN '<1m'
                     WHEN now() - e.created_at < interval '10 minutes' THEN '<10m'
                     WHEN now() - e.created_at < interval '1 hour' THEN '<1h' ELSE '>=1h' END AS age,
       count(*), extract(epoch FROM now() - min(e.created_at))
FROM eventhub.open_events o JOIN eventhub.events e ON e.id = o.id JOIN eventhub.routes r ON r.id = o.route
GROUP BY r.queue, age;

-- name: attempts
SELECT r.queue, d.attempts, count(*) FROM eventhub.deliveries d JOIN eventhub.routes r ON r.id = d.route
WHERE d.state <> 4 AND d.subscriber IS NULL GROUP BY r.queue, d.attempts;

-- name: count_results
SELECT r.queue, h.kind, count(*) FROM eventhub.handler_results h JOIN eventhub.events e ON e.id = h.event_id
JOIN eventhub.routes r ON r.id = e.route GROUP BY r.queue, h.kind;

-- name: recent_ends
-- The work on the last few thousand events tells latency and failure rate, whatever the log's length. What nobody wanted
-- was completed without an attempt, and tells neither.
SELECT r.queue, g.action, extract(epoch FROM g.created_at - e.created_at)
FROM eventhub.events e JOIN eventhub.event_log g ON g.event_id = e.id JOIN eventhub.routes r ON r.id = e.route
WHERE e.id > (SELECT coalesce(max(id), 0) - 5000 FROM eventhub.events)
  AND g.event_id > (SELECT coalesce(max(id), 0) - 5000 FROM eventhub.events)
  AND g.action IN ('COMPLETED', 'FAILED', 'ABANDONED') AND g.delivery_id = g.event_id AND g.attempt > 0;
