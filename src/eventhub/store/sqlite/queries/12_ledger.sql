-- name: horizon_events
-- Ids are given out under the write lock, so that they are committed in their order.
SELECT next FROM eventhub_sequence WHERE name = 'ids';

-- name: horizon_event_log
SELECT coalesce(max(id), 0) + 1 FROM eventhub_event_log;

-- name: horizon_audit
-- Of rows that were pruned, too: an id is never given twice.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'eventhub_audit'), 0) + 1;

-- name: lake_commits
SELECT dataset, number, first, last, rows, created_at, done_at FROM eventhub_lake_commits
WHERE dataset = :dataset ORDER BY number DESC LIMIT :limit;

-- name: intend_commit
INSERT INTO eventhub_lake_commits (dataset, number, first, last, created_at) VALUES (?, ?, ?, ?, ?);

-- name: forget_intention
DELETE FROM eventhub_lake_commits WHERE dataset = :dataset AND done_at IS NULL;

-- name: finish_commit
UPDATE eventhub_lake_commits SET rows = :rows, done_at = :now
WHERE dataset = :dataset AND number = :number AND done_at IS NULL RETURNING number;

-- name: waiting_events
SELECT count(*), min(created_at) FROM eventhub_events WHERE id >= :position;

-- name: waiting_event_log
SELECT count(*), min(created_at) FROM eventhub_event_log WHERE id >= :position;

-- name: waiting_audit
SELECT count(*), min(created_at) FROM eventhub_audit WHERE id >= :position;

-- name: take_lock
-- Who has let it go, or was silent for too long, does not have it any more; the fence tells the old from the new.
INSERT INTO eventhub_locks (name, owner, fence, until) VALUES (:name, :owner, 1, :until)
ON CONFLICT (name) DO UPDATE
SET owner = excluded.owner, fence = fence + 1, until = excluded.until
WHERE eventhub_locks.until IS NULL OR eventhub_locks.until < :now
RETURNING fence;

-- name: keep_lock
UPDATE eventhub_locks SET until = :until WHERE name = :name AND fence = :fence AND until IS NOT NULL RETURNING fence;

-- name: drop_lock
UPDATE eventhub_locks SET until = NULL WHERE name = :name AND fence = :fence RETURNING fence;

-- name: lock_holder
SELECT owner, fence, until FROM eventhub_locks WHERE name = :name AND until >= :now;
