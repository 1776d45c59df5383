-- What the HTTP work queue needs: lists that stay fast however many events there are, who works here, and API keys.

-- Lists by tag: the routes that have the tags are few, and each is read from its newest event on.
CREATE INDEX events_route ON eventhub.events (route, id);
-- Lists by type, and by type and tags at once: read route by route as well, so that neither filter scans the other's.
CREATE INDEX events_type ON eventhub.events (type, route, id);

-- Events that are not completed: their work is open, or was given up.
CREATE VIEW eventhub.unfinished AS
SELECT e.id, e.route, e.type FROM eventhub.deliveries d JOIN eventhub.events e ON e.id = d.event_id
UNION
SELECT l.event_id, l.route, l.type FROM eventhub.dead_letters l WHERE l.retried_at IS NULL;

-- Every worker that was ever heard of in a queue, by the name it gave itself.
CREATE TABLE eventhub.workers (
  queue       text NOT NULL,
  name        text NOT NULL,
  first_seen  timestamptz NOT NULL,
  last_seen   timestamptz NOT NULL,
  last_action text NOT NULL,
  PRIMARY KEY (queue, name)
) WITH (fillfactor = 50);

-- API keys: only a digest of the secret is kept. A key is never deleted, so that the log's names keep their meaning.
CREATE TABLE eventhub.api_keys (
  id           text PRIMARY KEY,
  name         text NOT NULL,
  digest       bytea NOT NULL,
  scopes       text NOT NULL,
  created_at   timestamptz NOT NULL,
  expires_at   timestamptz,
  revoked_at   timestamptz,
  last_used_at timestamptz,
  rotated_from text
) WITH (fillfactor = 50);
