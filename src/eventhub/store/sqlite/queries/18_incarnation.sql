-- name: identify
SELECT (SELECT CAST(value AS INTEGER) FROM eventhub_meta WHERE key = 'incarnation'),
       (SELECT CAST(value AS INTEGER) FROM eventhub_meta WHERE key = 'incarnation_began'),
       (SELECT value FROM eventhub_meta WHERE key = 'hub');

-- name: begin_incarnation
-- Ids go on at the time in microseconds, which is above all that any copy of this file has given out since; what stands
-- in the log and among the dead letters likewise.
UPDATE eventhub_sequence SET next = max(:now, next + 4294967296) WHERE name = 'ids' RETURNING next;

-- name: leap_rows
UPDATE sqlite_sequence SET seq = CASE name WHEN 'eventhub_routes' THEN seq + 1000000 ELSE max(:start, seq + 1) END
WHERE name LIKE 'eventhub\_%' ESCAPE '\';

-- name: leap_log
-- The log counts on from its last row, so that the rows of the event that tells of all this are moved up.
UPDATE eventhub_event_log SET id = id + :start WHERE event_id = :start;

-- name: leap_numbers
UPDATE eventhub_meta SET value = CAST(max(:start, CAST(value AS INTEGER) + 1) AS TEXT)
WHERE key IN ('incarnation_began', 'subscribers', 'subscriber_states');

-- name: count_incarnation
UPDATE eventhub_meta SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE key = 'incarnation';

-- name: leap_fences
-- Whoever holds a claim from before holds it no more: it may have been made since, and for another.
UPDATE eventhub_deliveries SET fence = fence + 1000000;

-- name: leap_versions
UPDATE eventhub_subscribers SET version = version + 1000000;

-- name: leap_locks
UPDATE eventhub_locks SET fence = fence + 1000000;
