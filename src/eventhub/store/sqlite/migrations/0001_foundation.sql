-- The ground: events, deliveries, the log and the dead letters, named so that they may share a file with others.
-- Times are microseconds since 1970, UTC.

CREATE TABLE eventhub_meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One sequence for events and deliveries: a work delivery has its event's id, and no id is ever used again.
CREATE TABLE eventhub_sequence (
  name TEXT PRIMARY KEY,
  next INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO eventhub_sequence VALUES ('ids', 1);

-- Where work waits, interned: claims go by this number, never by comparing tags.
CREATE TABLE eventhub_routes (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  queue    TEXT NOT NULL,
  tags     TEXT NOT NULL,
  priority INTEGER NOT NULL,
  UNIQUE (queue, tags, priority)
) STRICT;

-- Ordering keys that have open deliveries.
CREATE TABLE eventhub_lanes (
  id       INTEGER PRIMARY KEY,
  consumer TEXT NOT NULL,
  key      TEXT NOT NULL
) STRICT;

-- Immutable facts: inserted once, never updated.
CREATE TABLE eventhub_events (
  id              INTEGER PRIMARY KEY,
  route           INTEGER NOT NULL,
  type            TEXT NOT NULL,
  payload         TEXT NOT NULL,
  metadata        TEXT,
  tags            TEXT,
  title           TEXT,
  description     TEXT,
  ordering_key    TEXT,
  idempotency_key TEXT,
  created_at      INTEGER NOT NULL
) STRICT;

-- The work that is still to be done; a settled delivery is deleted. States are those of core/lifecycle.py.
-- ``parks`` says whether it holds its ordering key when it dies.
CREATE TABLE eventhub_deliveries (
  id           INTEGER PRIMARY KEY,
  event_id     INTEGER NOT NULL,
  subscriber   INTEGER,
  lane         INTEGER,
  route        INTEGER NOT NULL,
  state        INTEGER NOT NULL,
  due          INTEGER,
  fence        INTEGER NOT NULL,
  attempts     INTEGER NOT NULL,
  failures     INTEGER NOT NULL,
  max_attempts INTEGER,
  worker       TEXT,
  parks        INTEGER NOT NULL DEFAULT 0,
  errors       TEXT
) STRICT;
CREATE INDEX eventhub_deliveries_ready ON eventhub_deliveries (route, event_id) WHERE state = 0;
CREATE INDEX eventhub_deliveries_leased ON eventhub_deliveries (due) WHERE state = 1;
CREATE INDEX eventhub_deliveries_behind ON eventhub_deliveries (lane, id) WHERE state = 2;
CREATE INDEX eventhub_deliveries_waiting ON eventhub_deliveries (due) WHERE state = 3;
CREATE UNIQUE INDEX eventhub_deliveries_head ON eventhub_deliveries (lane) WHERE lane IS NOT NULL AND state <> 2;

-- What happened, append-only.
CREATE TABLE eventhub_event_log (
  id           INTEGER PRIMARY KEY,
  event_id     INTEGER NOT NULL,
  delivery_id  INTEGER,
  action       TEXT NOT NULL,
  worker       TEXT,
  attempt      INTEGER,
  fence        INTEGER,
  status_code  INTEGER,
  error        TEXT,
  execution_ms INTEGER,
  created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX eventhub_event_log_event ON eventhub_event_log (event_id);

-- Deliveries that were given up, each with its event as it was. ``retried_at`` closes one.
CREATE TABLE eventhub_dead_letters (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  delivery_id     INTEGER NOT NULL,
  event_id        INTEGER NOT NULL,
  subscriber      INTEGER,
  consumer        TEXT,
  lane            INTEGER,
  route           INTEGER NOT NULL,
  fence           INTEGER NOT NULL,
  attempts        INTEGER NOT NULL,
  failures        INTEGER NOT NULL,
  max_attempts    INTEGER,
  worker          TEXT,
  parks           INTEGER NOT NULL,
  errors          TEXT,
  reason          TEXT NOT NULL,
  status          TEXT NOT NULL,
  dead_at         INTEGER NOT NULL,
  retried_at      INTEGER,
  retried_by      TEXT,
  type            TEXT NOT NULL,
  payload         TEXT NOT NULL,
  metadata        TEXT,
  tags            TEXT,
  title           TEXT,
  description     TEXT,
  ordering_key    TEXT,
  idempotency_key TEXT,
  created_at      INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX eventhub_dead_letters_open ON eventhub_dead_letters (delivery_id) WHERE retried_at IS NULL;
CREATE INDEX eventhub_dead_letters_page ON eventhub_dead_letters (event_id DESC, id DESC) WHERE retried_at IS NULL;
CREATE INDEX eventhub_dead_letters_event ON eventhub_dead_letters (event_id);

CREATE TABLE eventhub_handler_results (
  event_id   INTEGER NOT NULL,
  handler    TEXT NOT NULL,
  kind       TEXT NOT NULL,
  message    TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (event_id, handler)
) STRICT, WITHOUT ROWID;

CREATE TABLE eventhub_guards (
  event_id   INTEGER NOT NULL,
  step       TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (event_id, step)
) STRICT, WITHOUT ROWID;

-- Keys that publishers use to say "this is the same event again"; each queue has its own.
CREATE TABLE eventhub_idempotency_keys (
  scope      TEXT NOT NULL,
  key        TEXT NOT NULL,
  event_id   INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

-- An event as people see it: its facts, and where its work stands.
CREATE VIEW eventhub_event_states AS
SELECT e.id, e.type, e.payload, e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key,
       e.created_at, r.queue, d.state, l.status AS dead_status,
       coalesce(d.attempts, l.attempts,
                (SELECT attempt FROM eventhub_event_log WHERE event_id = e.id AND action = 'COMPLETED' ORDER BY id DESC LIMIT 1),
                0) AS attempts,
       coalesce(d.failures, l.failures,
                (SELECT count(*) FROM eventhub_event_log WHERE event_id = e.id AND action IN ('FAILED', 'ABANDONED')
                 AND id > coalesce((SELECT max(id) FROM eventhub_event_log WHERE event_id = e.id AND action = 'RETRIED'), 0))
               ) AS failures,
       d.fence, CASE WHEN d.state = 1 THEN d.due END AS lease_ends, CASE WHEN d.state = 3 THEN d.due END AS next_retry,
       coalesce(d.errors, l.errors) AS errors,
       coalesce((SELECT max(created_at) FROM eventhub_event_log WHERE event_id = e.id), e.created_at) AS updated_at
FROM eventhub_events e
JOIN eventhub_routes r ON r.id = e.route
LEFT JOIN eventhub_deliveries d ON d.id = e.id AND d.state <> 4
LEFT JOIN eventhub_dead_letters l ON l.delivery_id = e.id AND l.retried_at IS NULL;
