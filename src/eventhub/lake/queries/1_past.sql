-- name: past_event
-- One event, by files, row groups and pages that may hold it: a look-up that reads as little as can be.
SELECT * FROM events WHERE id = {number};

-- name: past_log
SELECT * FROM event_log WHERE event_id = {number} ORDER BY id;
