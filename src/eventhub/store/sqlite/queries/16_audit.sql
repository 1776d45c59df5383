-- name: write_audit
-- In the transaction of the act itself, so that neither is there without the other.
INSERT INTO eventhub_audit (actor, actor_kind, key_id, address, action, target, details, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: audit_page
-- Newest first. An action stands for its group, too: key for key.create and key.revoke. Acts are few: a page that skips
-- those that do not fit reads the primary key backwards.
SELECT id, created_at, actor, actor_kind, key_id, address, action, target, details FROM eventhub_audit
WHERE id < :before AND (:actor IS NULL OR actor = :actor)
  AND (:action IS NULL OR action = :action OR substr(action, 1, length(:action) + 1) = :action || '.')
  AND (:target IS NULL OR target = :target)
  AND (:since IS NULL OR created_at >= :since) AND (:until IS NULL OR created_at <= :until)
ORDER BY id DESC LIMIT :limit;

-- name: prune_audit
-- The oldest first, so many in one transaction.
DELETE FROM eventhub_audit
WHERE id IN (SELECT id FROM eventhub_audit WHERE created_at < :before ORDER BY created_at LIMIT :limit) RETURNING 1;
