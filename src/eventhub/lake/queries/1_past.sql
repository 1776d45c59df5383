-- name: past_event
-- One event, by files, row groups and pages that may hold it: a look-up that reads as little as can be.
SELECT * FROM events WHERE id = {number};

-- name: past_log
SELECT * FROM event_log WHERE event_id = {number} ORDER BY id;

-- name: highest_events
SELECT max(id) AS row, max(id) AS id FROM events;

-- name: highest_event_log
-- Ids of events and deliveries are given out together, those of rows by themselves.
SELECT max(id) AS row, greatest(max(event_id), max(delivery_id)) AS id FROM event_log;
