-- The hub: who gets a copy of broadcast events, what is still to be handed out, and how each attempt went.

-- Consumers of broadcasts. ``document`` is what anybody may see of their configuration; signing secrets and secret
-- headers are in ``sealed``, encrypted under the server's secret. ``circuit`` is shared by all dispatchers: while it is
-- open nothing is sent but one probe, not before ``circuit_until``.
CREATE TABLE eventhub_subscribers (
  id            INTEGER PRIMARY KEY,
  name          TEXT NOT NULL UNIQUE,
  document      TEXT NOT NULL,
  sealed        BLOB,
  status        TEXT NOT NULL,
  reason        TEXT,
  circuit       TEXT NOT NULL DEFAULT 'closed',
  circuit_until INTEGER,
  circuit_opens INTEGER NOT NULL DEFAULT 0,
  version       INTEGER NOT NULL DEFAULT 1,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL
) STRICT;
-- Two numbers that grow, so that whoever remembers subscribers knows when to read them again: one with every change of
-- what any of them wants, which the fan-out goes by, one with every change of how they are.
INSERT INTO eventhub_meta (key, value) VALUES ('subscribers', '0'), ('subscriber_states', '0') ON CONFLICT DO NOTHING;
-- Which hub this is, for consumers that hear from several.
INSERT INTO eventhub_meta (key, value) VALUES ('hub', lower(hex(randomblob(16)))) ON CONFLICT DO NOTHING;

-- Broadcast events that are not handed out yet: a marker is written with its event and goes with its deliveries.
-- ``targets`` names subscribers, as JSON, when it is not for all that match; ``alone`` says that nobody works on the event
-- itself; ``due`` is when its deliveries are to be made.
CREATE TABLE eventhub_fanout (
  event_id INTEGER PRIMARY KEY,
  due      INTEGER,
  targets  TEXT,
  alone    INTEGER NOT NULL
) STRICT;

-- The deliveries of one event to its subscribers; a work delivery has its event's id and needs no index.
CREATE INDEX eventhub_deliveries_event ON eventhub_deliveries (event_id) WHERE subscriber IS NOT NULL;

-- How each attempt to reach a subscriber went: times, status, the beginning of the answer. Kept for a while.
CREATE TABLE eventhub_attempts (
  delivery_id INTEGER NOT NULL,
  fence       INTEGER NOT NULL,
  event_id    INTEGER NOT NULL,
  subscriber  INTEGER NOT NULL,
  action      TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  detail      TEXT NOT NULL,
  PRIMARY KEY (delivery_id, fence)
) STRICT, WITHOUT ROWID;
CREATE INDEX eventhub_attempts_subscriber ON eventhub_attempts (subscriber, created_at);

-- A subscriber's dead letter is announced once, by events of its own.
ALTER TABLE eventhub_dead_letters ADD COLUMN announced INTEGER NOT NULL DEFAULT 1;
CREATE INDEX eventhub_dead_letters_unannounced ON eventhub_dead_letters (id) WHERE NOT announced;
CREATE INDEX eventhub_dead_letters_subscriber ON eventhub_dead_letters (subscriber, id DESC)
  WHERE retried_at IS NULL AND subscriber IS NOT NULL;
