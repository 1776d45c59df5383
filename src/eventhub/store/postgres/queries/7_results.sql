-- name: record_results
-- Only the current claim may leave results behind.
INSERT INTO eventhub.handler_results (event_id, handler, kind, message, created_at)
SELECT d.event_id, r.handler, r.kind, r.message, coalesce($6, now())
FROM eventhub.deliveries d, unnest($3::text[], $4::text[], $5::text[]) AS r(handler, kind, message)
WHERE d.id = $1 AND d.fence = $2 AND d.state + 0 = 1
ON CONFLICT (event_id, handler) DO UPDATE SET kind = excluded.kind, message = excluded.message,
                                              created_at = excluded.created_at
RETURNING handler;

-- name: handler_results
SELECT event_id, handler, kind, message FROM eventhub.handler_results WHERE event_id = ANY ($1::bigint[]);

-- name: guard
INSERT INTO eventhub.guards (event_id, step, created_at) VALUES ($1, $2, coalesce($3, now()))
ON CONFLICT DO NOTHING RETURNING step;

-- name: is_guarded
SELECT 1 FROM eventhub.guards WHERE event_id = $1 AND step = $2;
