-- name: take_ids
-- One update hands out a whole run of ids; the write lock makes it safe.
UPDATE eventhub_sequence SET next = next + :count WHERE name = 'ids' RETURNING next - :count;

-- name: intern_route
-- Routes are few: insert when new, then the number is cached.
INSERT INTO eventhub_routes (queue, tags, priority) VALUES (:queue, :tags, :priority) ON CONFLICT DO NOTHING;

-- name: find_route
SELECT id FROM eventhub_routes WHERE queue = :queue AND tags = :tags AND priority = :priority;

-- name: new_routes
-- What came since the last look: those that a worker's tags allow are chosen from memory.
SELECT id, queue, tags, priority FROM eventhub_routes WHERE id > :after ORDER BY id;

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
                    created_at, published_by)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

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
