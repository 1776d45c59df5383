-- Work is claimed by its type, too, and routes that nothing uses any more are left out of claims and then forgotten.

-- ``changed`` grows with every change: whoever knows all changes up to a number asks for those above it. A route is
-- ``retired`` while nothing of it is open.
CREATE TABLE eventhub_routes_before AS SELECT * FROM eventhub_routes;
DROP TABLE eventhub_routes;
CREATE TABLE eventhub_routes (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  queue      TEXT NOT NULL,
  tags       TEXT NOT NULL,
  priority   INTEGER NOT NULL,
  type       TEXT NOT NULL DEFAULT '',
  retired    INTEGER NOT NULL DEFAULT 0,
  changed    INTEGER NOT NULL DEFAULT 0,
  changed_at INTEGER NOT NULL DEFAULT 0,
  UNIQUE (queue, tags, priority, type)
);
INSERT INTO eventhub_routes (id, queue, tags, priority) SELECT id, queue, tags, priority FROM eventhub_routes_before;
DROP TABLE eventhub_routes_before;
CREATE INDEX eventhub_routes_retired ON eventhub_routes (changed_at) WHERE retired = 1;

-- What is open, and what could be again, gets routes of its types; history stays where it is.
CREATE TABLE eventhub_moving AS
SELECT e.id, e.route AS old, e.type FROM eventhub_events e JOIN eventhub_routes r ON r.id = e.route
WHERE r.queue <> 'hub' AND e.id IN (SELECT event_id FROM eventhub_deliveries WHERE subscriber IS NULL
                                    UNION SELECT event_id FROM eventhub_dead_letters WHERE subscriber IS NULL);
INSERT INTO eventhub_routes (queue, tags, priority, type)
SELECT DISTINCT r.queue, r.tags, r.priority, m.type FROM eventhub_moving m JOIN eventhub_routes r ON r.id = m.old;
CREATE TABLE eventhub_moved (id INTEGER PRIMARY KEY, route INTEGER NOT NULL);
INSERT INTO eventhub_moved
SELECT m.id, n.id FROM eventhub_moving m JOIN eventhub_routes o ON o.id = m.old
JOIN eventhub_routes n ON n.queue = o.queue AND n.tags = o.tags AND n.priority = o.priority AND n.type = m.type;
UPDATE eventhub_events SET route = (SELECT m.route FROM eventhub_moved m WHERE m.id = eventhub_events.id)
WHERE id IN (SELECT id FROM eventhub_moved);
UPDATE eventhub_deliveries SET route = (SELECT m.route FROM eventhub_moved m WHERE m.id = event_id)
WHERE subscriber IS NULL AND event_id IN (SELECT id FROM eventhub_moved);
UPDATE eventhub_dead_letters SET route = (SELECT m.route FROM eventhub_moved m WHERE m.id = event_id)
WHERE subscriber IS NULL AND event_id IN (SELECT id FROM eventhub_moved);
DROP TABLE eventhub_moved;
DROP TABLE eventhub_moving;
UPDATE eventhub_routes SET retired = 1 WHERE type = '' AND queue <> 'hub';

-- Every change takes a number.
INSERT INTO eventhub_sequence SELECT 'routes', coalesce(max(id), 0) + 1 FROM eventhub_routes;
UPDATE eventhub_routes SET changed = id;
CREATE INDEX eventhub_routes_changed ON eventhub_routes (changed);
CREATE TRIGGER eventhub_route_added AFTER INSERT ON eventhub_routes WHEN new.changed = 0 BEGIN
  UPDATE eventhub_sequence SET next = next + 1 WHERE name = 'routes';
  UPDATE eventhub_routes SET changed = (SELECT next - 1 FROM eventhub_sequence WHERE name = 'routes') WHERE id = new.id;
END;
CREATE TRIGGER eventhub_route_changed AFTER UPDATE OF retired ON eventhub_routes BEGIN
  UPDATE eventhub_sequence SET next = next + 1 WHERE name = 'routes';
  UPDATE eventhub_routes SET changed = (SELECT next - 1 FROM eventhub_sequence WHERE name = 'routes') WHERE id = new.id;
END;
