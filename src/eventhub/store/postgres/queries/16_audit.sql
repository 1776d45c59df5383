-- name: write_audit
-- In the transaction of the act itself, so that neither is there without the other.
INSERT INTO eventhub.audit (actor, actor_kind, key_id, address, action, target, details, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, coalesce($8, now()));

-- name: audit_page
-- Newest first. An action stands for its group, too: key for key.create and key.revoke. Acts are few: a page that skips
-- those that do not fit reads the primary key backwards.
SELECT id, created_at, actor, actor_kind, key_id, address, action, target, details FROM eventhub.audit
WHERE id < $1 AND ($2::text IS NULL OR actor = $2)
  AND ($3::text IS NULL OR action = $3 OR starts_with(action, $3 || '.'))
  AND ($4::text IS NULL OR target = $4)
  AND ($5::timestamptz IS NULL OR created_at >= $5) AND ($6::timestamptz IS NULL OR created_at <= $6)
ORDER BY id DESC LIMIT $7;

-- name: prune_audit
-- The oldest first, so many in one transaction.
WITH gone AS (
  DELETE FROM eventhub.audit WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM eventhub.audit WHERE created_at < coalesce($3, now()) - $1::interval ORDER BY created_at LIMIT $2))
  RETURNING 1)
SELECT count(*) FROM gone;
