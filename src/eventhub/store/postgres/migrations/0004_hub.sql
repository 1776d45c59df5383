-- The hub: who gets a copy of broadcast events, what is still to be handed out, and how each attempt went.

-- Consumers of broadcasts. ``document`` is what anybody may see of their configuration; signing secrets and secret
-- headers are in ``sealed``, encrypted under the server's secret. ``circuit`` is shared by all dispatchers: while it is
-- open nothing is sent but one probe, not before ``circuit_until``.
CREATE TABLE eventhub.subscribers (
  id            bigint PRIMARY KEY,
  name          text NOT NULL UNIQUE,
  document      json NOT NULL,
  sealed        bytea,
  status        text NOT NULL,
  reason        text,
  circuit       text NOT NULL DEFAULT 'closed',
  circuit_until timestamptz,
  circuit_opens integer NOT NULL DEFAULT 0,
  version       integer NOT NULL DEFAULT 1,
  created_at    timestamptz NOT NULL,
  updated_at    timestamptz NOT NULL
);
-- Two numbers that grow, so that whoever remembers subscribers knows when to read them again: one with every change of
-- what any of them wants, which the fan-out goes by, one with every change of how they are.
INSERT INTO eventhub.meta (key, value) VALUES ('subscribers', '0'), ('subscriber_states', '0') ON CONFLICT DO NOTHING;
-- Which hub this is, for consumers that hear from several.
INSERT INTO eventhub.meta (key, value) VALUES ('hub', replace(gen_random_uuid()::text, '-', '')) ON CONFLICT DO NOTHING;

-- Broadcast events that are not handed out yet: a marker is written with its event and goes with its deliveries.
-- ``targets`` names subscribers, as JSON, when it is not for all that match; ``alone`` says that nobody works on the event
-- itself; ``due`` is when its deliveries are to be made.
CREATE TABLE eventhub.fanout (
  event_id bigint PRIMARY KEY,
  due      timestamptz,
  targets  text,
  alone    boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- The deliveries of one event to its subscribers; a work delivery has its event's id and needs no index.
CREATE INDEX deliveries_event ON eventhub.deliveries (event_id) WHERE subscriber IS NOT NULL;

-- How each attempt to reach a subscriber went: times, status, the beginning of the answer. Kept for a while.
CREATE TABLE eventhub.attempts (
  delivery_id bigint NOT NULL,
  fence       integer NOT NULL,
  event_id    bigint NOT NULL,
  subscriber  bigint NOT NULL,
  action      text NOT NULL,
  created_at  timestamptz NOT NULL,
  detail      json NOT NULL,
  PRIMARY KEY (delivery_id, fence)
);
CREATE INDEX attempts_subscriber ON eventhub.attempts (subscriber, created_at);

-- A subscriber's dead letter is announced once, by events of its own.
ALTER TABLE eventhub.dead_letters ADD COLUMN announced boolean NOT NULL DEFAULT true;
CREATE INDEX dead_letters_unannounced ON eventhub.dead_letters (id) WHERE NOT announced;
CREATE INDEX dead_letters_subscriber ON eventhub.dead_letters (subscriber, id DESC)
  WHERE retried_at IS NULL AND subscriber IS NOT NULL;
