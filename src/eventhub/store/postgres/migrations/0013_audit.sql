-- Administrative acts: who did what, and when. Rows are written in the transaction of the act, and never changed.
CREATE TABLE eventhub.audit (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  actor      text NOT NULL,
  actor_kind text NOT NULL,
  key_id     text,
  address    text,
  action     text NOT NULL,
  target     text,
  details    text,
  created_at timestamptz NOT NULL,
  xid        bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)
);
-- For the retention, and for lists that begin at a time.
CREATE INDEX audit_created ON eventhub.audit (created_at);
-- For the copy in the lake, which reads in the order of transactions.
CREATE INDEX audit_xid ON eventhub.audit (xid, id);
