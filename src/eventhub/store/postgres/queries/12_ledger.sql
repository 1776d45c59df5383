-- name: horizon
-- Transactions below this number have all ended.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- name: origin
-- Transaction numbers are those of one cluster.
SELECT system_identifier::text FROM pg_control_system();

-- name: lake_commits
SELECT dataset, number, first, last, rows, created_at, done_at FROM eventhub.lake_commits
WHERE dataset = $1 ORDER BY number DESC LIMIT $2;

-- name: intend_commit
-- Behind the last one, unless one is under way. Of two who intend the same number one is refused, and looks again.
INSERT INTO eventhub.lake_commits (dataset, number, first, last, created_at)
SELECT $1, coalesce(b.number, 0) + 1, coalesce(b.last, 0), $2, coalesce($3, now())
FROM (SELECT 1) one
LEFT JOIN LATERAL (SELECT number, last, done_at FROM eventhub.lake_commits WHERE dataset = $1
                   ORDER BY number DESC LIMIT 1) b ON true
WHERE coalesce(b.last, 0) < $2 AND (b.number IS NULL OR b.done_at IS NOT NULL)
ON CONFLICT DO NOTHING;

-- name: finish_commit
UPDATE eventhub.lake_commits SET rows = $3, done_at = coalesce($4, now())
WHERE dataset = $1 AND number = $2 AND done_at IS NULL RETURNING number;

-- name: restart_commits
-- What was under way is forgotten in the same moment: one copy at a time is.
WITH gone AS (DELETE FROM eventhub.lake_commits WHERE dataset = $1 AND done_at IS NULL RETURNING 1)
INSERT INTO eventhub.lake_commits (dataset, number, first, last, created_at)
SELECT $1, $2, 0, $3, coalesce($4, now()) FROM (SELECT count(*) FROM gone) first
RETURNING dataset, number, first, last, rows, created_at, done_at;

-- name: reposition_events
-- Numbers that this server has not come to yet were given by another one.
UPDATE eventhub.events SET xid = pg_current_xact_id()::text::bigint
WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint;

-- name: reposition_event_log
UPDATE eventhub.event_log SET xid = pg_current_xact_id()::text::bigint
WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint;

-- name: reposition_audit
UPDATE eventhub.audit SET xid = pg_current_xact_id()::text::bigint
WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint;

-- name: next_position
SELECT pg_current_xact_id()::text::bigint;

-- name: waiting_events
SELECT count(*), min(created_at) FROM eventhub.events WHERE xid >= greatest($1::bigint, 1);

-- name: waiting_event_log
SELECT count(*), min(created_at) FROM eventhub.event_log WHERE xid >= greatest($1::bigint, 1);

-- name: waiting_audit
SELECT count(*), min(created_at) FROM eventhub.audit WHERE xid >= greatest($1::bigint, 1);

-- name: horizon_age
-- Numbers are those of the whole cluster, so that a transaction in any of its databases counts; those that only read
-- have none.
SELECT max(age) FROM (
  SELECT clock_timestamp() - xact_start AS age FROM pg_stat_activity
  WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
  UNION ALL SELECT clock_timestamp() - prepared FROM pg_prepared_xacts) open;

-- name: take_lock
-- Who has let it go, or was silent for too long, does not have it any more; the fence tells the old from the new.
INSERT INTO eventhub.locks AS held (name, owner, fence, until)
VALUES ($1, $2, 1, coalesce($4, now()) + $3::interval)
ON CONFLICT (name) DO UPDATE
SET owner = excluded.owner, fence = held.fence + 1, until = excluded.until
WHERE held.until IS NULL OR held.until < coalesce($4, now())
RETURNING fence;

-- name: keep_lock
UPDATE eventhub.locks SET until = coalesce($4, now()) + $3::interval
WHERE name = $1 AND fence = $2 AND until IS NOT NULL RETURNING fence;

-- name: drop_lock
UPDATE eventhub.locks SET until = NULL WHERE name = $1 AND fence = $2 RETURNING fence;

-- name: lock_holder
SELECT owner, fence, until FROM eventhub.locks WHERE name = $1 AND until >= now();
