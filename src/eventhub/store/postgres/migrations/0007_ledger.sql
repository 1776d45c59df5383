-- The way to the lake: which rows were copied, by ranges that cannot change any more, and who does it.

-- Rows come in the order of their transactions, or nearly, so that a range of them lies together: such an index costs
-- publishers next to nothing and leads to the right part of the table.
CREATE INDEX events_xid ON eventhub.events USING brin (xid) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX event_log_xid ON eventhub.event_log USING brin (xid) WITH (pages_per_range = 32, autosummarize = on);

-- Copies: first intended, with the range that is to be copied, then done. The number is also in the lake's own log.
CREATE TABLE eventhub.lake_commits (
  dataset    text NOT NULL,
  number     bigint NOT NULL,
  first      bigint NOT NULL,
  last       bigint NOT NULL,
  rows       bigint,
  created_at timestamptz NOT NULL,
  done_at    timestamptz,
  PRIMARY KEY (dataset, number)
);
-- One copy at a time is under way.
CREATE UNIQUE INDEX lake_commits_open ON eventhub.lake_commits (dataset) WHERE done_at IS NULL;

-- Work that one process at a time does for all: a lease with a fence, as claims have.
CREATE TABLE eventhub.locks (
  name  text PRIMARY KEY,
  owner text,
  fence bigint NOT NULL,
  until timestamptz
);
