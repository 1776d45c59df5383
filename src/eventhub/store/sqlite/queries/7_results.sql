-- name: record_result
-- Only the current claim may leave a result behind.
INSERT INTO eventhub_handler_results (event_id, handler, kind, message, created_at)
SELECT d.event_id, ?3, ?4, ?5, ?6 FROM eventhub_deliveries d WHERE d.id = ?1 AND d.fence = ?2 AND d.state = 1
ON CONFLICT (event_id, handler) DO UPDATE SET kind = excluded.kind, message = excluded.message,
                                              created_at = excluded.created_at
RETURNING event_id;

-- name: handler_results
SELECT event_id, handler, kind, message FROM eventhub_handler_results WHERE event_id IN (SELECT value FROM carray(:ids));

-- name: guard
INSERT INTO eventhub_guards (event_id, step, created_at) VALUES (:event_id, :step, :now) ON CONFLICT DO NOTHING RETURNING step;

-- name: is_guarded
SELECT 1 FROM eventhub_guards WHERE event_id = :event_id AND step = :step;
