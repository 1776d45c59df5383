-- Administrative acts: who did what, and when. Rows are written in the transaction of the act, and never changed; an id is
-- never given twice, for the copy in the lake goes by it.
CREATE TABLE eventhub_audit (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  actor      TEXT NOT NULL,
  actor_kind TEXT NOT NULL,
  key_id     TEXT,
  address    TEXT,
  action     TEXT NOT NULL,
  target     TEXT,
  details    TEXT,
  created_at INTEGER NOT NULL
) STRICT;
-- For the retention, and for lists that begin at a time.
CREATE INDEX eventhub_audit_created ON eventhub_audit (created_at);
