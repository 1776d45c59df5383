-- Sessions of browsers that were ended before their time: a copy of the cookie opens nothing any more.
CREATE TABLE eventhub_ended_sessions (
  id      TEXT PRIMARY KEY,
  ends_at INTEGER NOT NULL
) WITHOUT ROWID;
