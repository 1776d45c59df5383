-- name: make_evidence
-- Everything that is known about a run, in one file. ``n`` numbers the records: those of one process in their order.
PRAGMA user_version = 2;
CREATE TABLE records (
  n INTEGER PRIMARY KEY, process TEXT, call INTEGER, kind TEXT, op TEXT, time REAL, wall REAL, id INTEGER, fence INTEGER,
  attempt INTEGER, key TEXT, token TEXT, hash TEXT, batch TEXT, size INTEGER, idempotency TEXT, "limit" INTEGER,
  outcome TEXT, accepted INTEGER, until REAL, worker TEXT, error TEXT, broadcast INTEGER);
CREATE TABLE events (
  id INTEGER PRIMARY KEY, type TEXT, token TEXT, hash TEXT, key TEXT, payload_key TEXT, idempotency TEXT, queue TEXT,
  created REAL);
CREATE TABLE log (
  delivery_id INTEGER, id INTEGER, event_id INTEGER, action TEXT, worker TEXT, attempt INTEGER, fence INTEGER,
  status_code INTEGER, error TEXT, subscriber INTEGER, created REAL,
  PRIMARY KEY (delivery_id, id)) WITHOUT ROWID;
CREATE TABLE deliveries (
  id INTEGER PRIMARY KEY, event_id INTEGER, subscriber INTEGER, key TEXT, state INTEGER, fence INTEGER, attempts INTEGER,
  failures INTEGER, max_attempts INTEGER, worker TEXT, due REAL);
CREATE TABLE dead_letters (
  id INTEGER PRIMARY KEY, delivery_id INTEGER, event_id INTEGER, subscriber INTEGER, consumer TEXT, key TEXT,
  fence INTEGER, attempts INTEGER, failures INTEGER, max_attempts INTEGER, worker TEXT, errors TEXT, error_count INTEGER,
  reason TEXT, status TEXT, hash TEXT, dead_at REAL, retried_at REAL);
CREATE TABLE markers (event_id INTEGER PRIMARY KEY, alone INTEGER, due REAL);
CREATE TABLE subscribers (
  id INTEGER PRIMARY KEY, name TEXT, status TEXT, ordering_key TEXT, max_attempts INTEGER, guarantee TEXT,
  filtered INTEGER, created REAL);
CREATE TABLE wants (type TEXT, subscriber INTEGER, PRIMARY KEY (type, subscriber)) WITHOUT ROWID;
CREATE TABLE lake_events (id INTEGER PRIMARY KEY, hash TEXT, count INTEGER);
CREATE TABLE lake_log (id INTEGER PRIMARY KEY, count INTEGER);
CREATE TABLE facts (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- name: add_record
INSERT INTO records VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_event
INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_log
-- The columns as the store tells them. Whatever the same row number says twice is a defect of the store and must show.
INSERT INTO log (id, event_id, delivery_id, action, worker, attempt, fence, status_code, error, subscriber, created)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_delivery
INSERT INTO deliveries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_dead_letter
INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_marker
INSERT INTO markers VALUES (?, ?, ?);

-- name: add_subscriber
INSERT INTO subscribers VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: known_types
SELECT DISTINCT type FROM events;

-- name: add_want
INSERT INTO wants VALUES (?, ?);

-- name: add_lake_event
INSERT INTO lake_events VALUES (?, ?, 1) ON CONFLICT (id) DO UPDATE SET count = count + 1;

-- name: add_lake_log
INSERT INTO lake_log VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET count = count + 1;

-- name: add_fact
INSERT INTO facts VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: index_evidence
-- What one operation says is read in the order of the records; the others are not touched.
CREATE INDEX records_op ON records (op, kind);
CREATE INDEX events_token ON events (token);
CREATE INDEX dead_letters_delivery ON dead_letters (delivery_id);
CREATE INDEX dead_letters_event ON dead_letters (event_id);
CREATE INDEX deliveries_event ON deliveries (event_id);

-- name: facts
SELECT key, value FROM facts;
