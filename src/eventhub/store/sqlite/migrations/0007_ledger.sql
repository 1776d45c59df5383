-- The way to the lake: which rows were copied, by ranges that cannot change any more, and who does it.

-- Copies: first intended, with the range that is to be copied, then done. The number is also in the lake's own log.
CREATE TABLE eventhub_lake_commits (
  dataset    TEXT NOT NULL,
  number     INTEGER NOT NULL,
  first      INTEGER NOT NULL,
  last       INTEGER NOT NULL,
  rows       INTEGER,
  created_at INTEGER NOT NULL,
  done_at    INTEGER,
  PRIMARY KEY (dataset, number)
) STRICT, WITHOUT ROWID;
-- One copy at a time is under way.
CREATE UNIQUE INDEX eventhub_lake_commits_open ON eventhub_lake_commits (dataset) WHERE done_at IS NULL;

-- Work that one process at a time does for all: a lease with a fence, as claims have.
CREATE TABLE eventhub_locks (
  name  TEXT PRIMARY KEY,
  owner TEXT,
  fence INTEGER NOT NULL,
  until INTEGER
) STRICT, WITHOUT ROWID;
