-- name: stored
-- Every event by its token, and whether its work is finished.
SELECT json_extract(e.payload, '$.token'), d.id IS NULL
FROM eventhub_events e LEFT JOIN eventhub_deliveries d ON d.id = e.id;
