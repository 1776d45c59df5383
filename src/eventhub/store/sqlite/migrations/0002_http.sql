-- What the HTTP work queue needs: lists that stay fast however many events there are, who works here, and API keys.

-- Lists by tag: the routes that have the tags are few, and each is read from its newest event on. An index ends in the
-- row's id by itself.
CREATE INDEX eventhub_events_route ON eventhub_events (route);
-- Lists by type, and by type and tags at once: read route by route as well, so that neither filter scans the other's.
CREATE INDEX eventhub_events_type ON eventhub_events (type, route);

-- Events that are not completed: their work is open, or was given up.
CREATE VIEW eventhub_unfinished AS
SELECT e.id, e.route, e.type FROM eventhub_deliveries d JOIN eventhub_events e ON e.id = d.event_id
UNION
SELECT l.event_id, l.route, l.type FROM eventhub_dead_letters l WHERE l.retried_at IS NULL;

-- Every worker that was ever heard of in a queue, by the name it gave itself.
CREATE TABLE eventhub_workers (
  queue       TEXT NOT NULL,
  name        TEXT NOT NULL,
  first_seen  INTEGER NOT NULL,
  last_seen   INTEGER NOT NULL,
  last_action TEXT NOT NULL,
  PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;

-- API keys: only a digest of the secret is kept. A key is never deleted, so that the log's names keep their meaning.
CREATE TABLE eventhub_api_keys (
  id           TEXT PRIMARY KEY,
  name         TEXT NOT NULL,
  digest       BLOB NOT NULL,
  scopes       TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER,
  revoked_at   INTEGER,
  last_used_at INTEGER,
  rotated_from TEXT
) STRICT, WITHOUT ROWID;
