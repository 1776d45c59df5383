-- name: take_ids
-- One update hands out a whole run of ids; the write lock makes it safe.
UPDATE eventhub_sequence SET next = next + :count WHERE name = 'ids' RETURNING next - :count;

-- name: intern_route
-- Routes are few: those that are new or come back, then the number is cached. A trigger numbers the change.
INSERT INTO eventhub_routes (queue, tags, priority, type, changed_at) VALUES (:queue, :tags, :priority, :type, :now)
ON CONFLICT DO UPDATE SET retired = 0, changed_at = excluded.changed_at WHERE retired = 1;

-- name: find_route
SELECT id FROM eventhub_routes
WHERE queue = :queue AND tags = :tags AND priority = :priority AND type = :type AND retired = 0;

-- name: new_routes
-- What has changed since the last look: those that a worker's tags and types allow are chosen from memory. Who knows
-- nothing yet need not hear of those that are retired.
SELECT id, queue, tags, priority, type, retired, changed FROM eventhub_routes
WHERE changed > :after AND (:after > 0 OR retired = 0) ORDER BY changed;

-- name: idle_routes
-- Routes by type behind the number :after of which nothing is ready or held back, nor anything younger than :before.
SELECT r.id FROM eventhub_routes r
WHERE r.id > :after AND r.retired = 0 AND r.type <> '' AND r.changed_at < :before
  AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_ready WHERE d.state = 0 AND d.route = r.id)
  AND NOT EXISTS (SELECT 1 FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_held
                  WHERE d.state IN (2, 3) AND d.subscriber IS NULL AND d.route = r.id)
  AND coalesce((SELECT e.created_at FROM eventhub_events e WHERE e.route = r.id AND e.type = r.type
                ORDER BY e.id DESC LIMIT 1) < :before, 1)
ORDER BY r.id LIMIT :limit;

-- name: retire_routes
-- Of those the ones of which nothing at all is open.
UPDATE eventhub_routes SET retired = 1, changed_at = :now WHERE id IN (SELECT value FROM carray(:routes))
  AND id NOT IN (SELECT d.route FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_leased WHERE d.state = 1)
  AND id NOT IN (SELECT d.route FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_blocked_work
                 WHERE d.subscriber IS NULL AND d.lane IS NOT NULL AND d.state <> 2 AND d.state = 4)
RETURNING id;

-- name: stray_routes
-- Routes that are retired although something of them is open: a program of an older version publishes on what it remembers.
SELECT r.id, r.queue, r.tags, r.priority, r.type FROM eventhub_routes r
WHERE r.retired = 1 AND r.queue <> 'hub'
  AND (EXISTS (SELECT 1 FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_ready WHERE d.state = 0 AND d.route = r.id)
       OR EXISTS (SELECT 1 FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_held
                  WHERE d.state IN (2, 3) AND d.subscriber IS NULL AND d.route = r.id))
ORDER BY r.id LIMIT :limit;

-- name: stray_work
-- What is open on a route without a type, and of which types it is.
SELECT w.id, e.type
FROM (SELECT * FROM (SELECT d.id, d.event_id FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_ready
                     WHERE d.state = 0 AND d.route = :route ORDER BY d.event_id LIMIT :limit)
      UNION ALL
      SELECT * FROM (SELECT d.id, d.event_id FROM eventhub_deliveries d INDEXED BY eventhub_deliveries_held
                     WHERE d.state IN (2, 3) AND d.subscriber IS NULL AND d.route = :route ORDER BY d.event_id LIMIT :limit)) w
JOIN eventhub_events e ON e.id = w.event_id;

-- name: move_event
UPDATE eventhub_events SET route = :route
WHERE id IN (SELECT d.event_id FROM eventhub_deliveries d WHERE d.id IN (SELECT value FROM carray(:ids)));

-- name: move_work
UPDATE eventhub_deliveries SET route = :route WHERE id IN (SELECT value FROM carray(:ids));

-- name: bring_back
UPDATE eventhub_routes SET retired = 0, changed_at = :now WHERE retired = 1 AND id IN (SELECT value FROM carray(:routes));

-- name: drop_routes
-- Routes that were retired before :before, and that nothing at all names any more.
DELETE FROM eventhub_routes WHERE id IN (
  SELECT r.id FROM eventhub_routes r
  WHERE r.retired = 1 AND r.changed_at < :before
    AND NOT EXISTS (SELECT 1 FROM eventhub_events e WHERE e.route = r.id)
    AND r.id NOT IN (SELECT l.route FROM eventhub_dead_letters l)
  ORDER BY r.changed_at LIMIT :limit)
RETURNING id;

-- name: return_routes
-- The routes of dead letters that get a fresh start, if they were retired.
UPDATE eventhub_routes SET retired = 0, changed_at = :now
WHERE retired = 1 AND id IN (SELECT l.route FROM eventhub_dead_letters l WHERE l.id IN (SELECT value FROM carray(:ids)));

-- name: hold_routes
-- Whether the number of a route is still good: another process may have retired it. The write lock keeps it so.
SELECT 1 FROM eventhub_routes WHERE id = ? AND retired = 0;

-- name: take_key
-- Racing duplicates: exactly one insert of a key wins.
INSERT INTO eventhub_idempotency_keys (scope, key, event_id, asked, created_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING RETURNING scope, key;

-- name: keyed_events
-- The first events of keys that were taken before, to compare with what is being published again. A key may outlive its
-- event.
SELECT k.asked, k.event_id, e.type, e.payload, e.metadata, e.tags, e.title, e.description, e.ordering_key, k.created_at
FROM eventhub_idempotency_keys k LEFT JOIN eventhub_events e ON e.id = k.event_id WHERE k.scope = :scope AND k.key = :key;

-- name: drop_keys
-- Keys that were taken for an event that is not stored after all.
DELETE FROM eventhub_idempotency_keys WHERE scope = ? AND key = ?;

-- name: lock_lanes
-- Make the ordering keys known; the write lock serialises everything else.
INSERT INTO eventhub_lanes (id, consumer, key) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: taken_lanes
-- Which of these keys have a head already: their new deliveries go behind it.
SELECT lane FROM eventhub_deliveries WHERE lane IN (SELECT value FROM carray(?)) AND state <> 2;

-- name: insert_events
INSERT INTO eventhub_events (id, route, type, payload, metadata, tags, title, description, ordering_key, idempotency_key,
                    created_at, published_by, deliver_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_deliveries
INSERT INTO eventhub_deliveries (id, event_id, lane, route, state, due, fence, attempts, failures, max_attempts, worker,
                                 parks, handlers, owner)
VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6, ?6, 0, ?7, ?8, ?9, ?10, ?11);

-- name: insert_bare_events
-- The common case has few columns, and every column that is not bound is time saved.
INSERT INTO eventhub_events (id, route, type, payload, metadata, created_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: insert_same_events
-- Commoner still: one type, one route. The payloads come as one array, so no row is bound by itself.
INSERT INTO eventhub_events (id, route, type, payload, created_at)
SELECT :first + rowid - 1, :route, :type, value, :now FROM carray(:payloads);

-- name: insert_bare_deliveries
-- From the events just inserted, without going through Python again.
INSERT INTO eventhub_deliveries (id, event_id, route, state, fence, attempts, failures, max_attempts, handlers, owner)
SELECT id, id, route, 0, 0, 0, 0, :max_attempts, :handlers, :owner FROM eventhub_events WHERE id BETWEEN :first AND :last;

-- name: insert_markers
-- Broadcasts wait here for the fan-out.
INSERT INTO eventhub_fanout (event_id, due, targets, alone) VALUES (?, ?, ?, ?);

-- name: log_published
-- From the rows just inserted, without going through Python again.
INSERT INTO eventhub_event_log (event_id, delivery_id, action, created_at)
SELECT id, id, 'PUBLISHED', created_at FROM eventhub_events WHERE id BETWEEN :first AND :last;
