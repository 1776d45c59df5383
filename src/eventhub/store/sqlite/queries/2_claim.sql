-- name: claim_route
-- Only ready deliveries are in this index, so the cost does not depend on what else waits.
SELECT d.id, d.fence, d.attempts, d.failures, d.lane, d.max_attempts, e.type, e.payload, e.metadata, e.tags, e.title,
       e.description, e.ordering_key, e.idempotency_key, e.created_at, d.event_id, NULL
FROM eventhub_deliveries d JOIN eventhub_events e ON e.id = d.event_id
WHERE d.state = 0 AND d.route = :route ORDER BY d.event_id LIMIT :limit;

-- name: claim_routes
-- Several routes: the first :each of them, merged by age, and only then their events; reading a few too many locks nothing
-- here. Whose row it is comes last. A CROSS JOIN keeps its order, whatever the statistics: from the routes to their
-- deliveries, never back.
SELECT d.id, d.fence, d.attempts, d.failures, d.lane, d.max_attempts, e.type, e.payload, e.metadata, e.tags, e.title,
       e.description, e.ordering_key, e.idempotency_key, e.created_at, d.event_id, NULL, d.route
FROM (SELECT n.id FROM carray(:routes) r
      CROSS JOIN eventhub_deliveries n ON n.id IN (SELECT x.id FROM eventhub_deliveries x
                                                   WHERE x.state = 0 AND x.route = r.value ORDER BY x.event_id LIMIT :each)
      ORDER BY n.event_id LIMIT :limit) c
CROSS JOIN eventhub_deliveries d ON d.id = c.id
CROSS JOIN eventhub_events e ON e.id = d.event_id
ORDER BY d.event_id;

-- name: ready_routes
-- One look-up a route and at most :most entries of each, whatever the backlog.
SELECT r.value, d.event_id FROM carray(:routes) r
CROSS JOIN eventhub_deliveries d ON d.id IN (SELECT n.id FROM eventhub_deliveries n
                                             WHERE n.state = 0 AND n.route = r.value ORDER BY n.event_id LIMIT :most);

-- name: ready_types
-- The oldest that is ready of each route; and the routes of which something is leased, for which as many are looked at as
-- there are open claims.
SELECT r.value, d.event_id FROM carray(:routes) r
CROSS JOIN eventhub_deliveries d ON d.id IN (SELECT n.id FROM eventhub_deliveries n
                                             WHERE n.state = 0 AND n.route = r.value ORDER BY n.event_id LIMIT 1)
UNION ALL
SELECT DISTINCT h.route, NULL FROM eventhub_deliveries h INDEXED BY eventhub_deliveries_leased
WHERE h.state = 1 AND h.route IN (SELECT value FROM carray(:routes));

-- name: claim_ids
-- Chosen deliveries, those of them that are ready.
SELECT d.id, d.fence, d.attempts, d.failures, d.lane, d.max_attempts, e.type, e.payload, e.metadata, e.tags, e.title,
       e.description, e.ordering_key, e.idempotency_key, e.created_at, d.event_id,
       (SELECT r.queue FROM eventhub_routes r WHERE r.id = d.route)
FROM eventhub_deliveries d JOIN eventhub_events e ON e.id = d.event_id
WHERE d.state = 0 AND d.id IN (SELECT value FROM carray(:ids)) ORDER BY d.event_id;

-- name: lease
-- The claim itself: the fence goes up with every claim and never comes down. The plus keeps the rows looked up by id.
UPDATE eventhub_deliveries SET state = 1, fence = fence + 1, attempts = attempts + 1, worker = :worker, claimed_by = :claimed_by, due = :due,
       max_attempts = coalesce(:max_attempts, max_attempts)
WHERE +state = 0 AND id IN (SELECT value FROM carray(:ids));

-- name: own
-- An event of a bus belongs to the bus that claims it.
UPDATE eventhub_deliveries SET owner = :worker WHERE handlers IS NOT NULL AND id IN (SELECT value FROM carray(:ids));

-- name: log_picked
INSERT INTO eventhub_event_log (event_id, delivery_id, action, worker, attempt, fence, subscriber, created_at)
SELECT event_id, id, 'PICKED', worker, attempts, fence, subscriber, :now FROM eventhub_deliveries
WHERE id IN (SELECT value FROM carray(:ids)) ORDER BY event_id;

-- name: extend
-- Only the current claim can lengthen its lease, and a lease that has ended may still be saved if nobody took it.
-- It never becomes shorter: whoever was promised an hour keeps it.
UPDATE eventhub_deliveries SET due = max(due, ?3) WHERE id = ?1 AND fence = ?2 AND state = 1 RETURNING id;

-- name: log_started
-- After the leases were lengthened, in the same transaction: the log says that the work has begun.
INSERT INTO eventhub_event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
SELECT event_id, id, 'STARTED', worker, attempts, fence, :now FROM eventhub_deliveries
WHERE id IN (SELECT value FROM carray(:ids)) ORDER BY event_id;
