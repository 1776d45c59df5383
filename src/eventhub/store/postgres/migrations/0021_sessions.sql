-- Sessions of browsers that were ended before their time: a copy of the cookie opens nothing any more.
CREATE TABLE eventhub.ended_sessions (
  id      text PRIMARY KEY,
  ends_at timestamptz NOT NULL
);
