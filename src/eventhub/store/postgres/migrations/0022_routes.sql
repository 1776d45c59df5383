-- Work is claimed by its type, too, and routes that nothing uses any more are left out of claims and then forgotten.

-- What makes a route one and the same: a digest, for the tags of one may be longer than an entry of an index. None of the
-- parts can have a slash in it.
CREATE FUNCTION eventhub.route_digest(queue text, tags text, priority integer, type text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT sha256(decode(queue || '/' || tags || '/' || priority::text || '/' || type, 'escape'))
$$;

-- ``changed`` grows with every change, in the order of the commits: whoever knows all changes up to a number asks for those
-- above it. A route is ``retired`` while nothing of it is open.
CREATE SEQUENCE eventhub.route_changes;
ALTER TABLE eventhub.routes DROP CONSTRAINT routes_queue_tags_priority_key;
ALTER TABLE eventhub.routes ADD COLUMN type text NOT NULL DEFAULT '';
ALTER TABLE eventhub.routes ADD COLUMN retired boolean NOT NULL DEFAULT false;
ALTER TABLE eventhub.routes ADD COLUMN changed bigint NOT NULL DEFAULT nextval('eventhub.route_changes');
ALTER TABLE eventhub.routes ADD COLUMN changed_at timestamptz NOT NULL DEFAULT now();
CREATE UNIQUE INDEX routes_digest ON eventhub.routes (eventhub.route_digest(queue, tags, priority, type));
CREATE UNIQUE INDEX routes_changed ON eventhub.routes (changed);
CREATE INDEX routes_active ON eventhub.routes (id) WHERE NOT retired;
CREATE INDEX routes_retired ON eventhub.routes (changed_at) WHERE retired;

-- What is open, and what could be again, gets routes of its types; history stays where it is.
CREATE TEMPORARY TABLE moving ON COMMIT DROP AS
SELECT e.id, e.route AS old, e.type, NULL::integer AS new FROM eventhub.events e JOIN eventhub.routes r ON r.id = e.route
WHERE r.queue <> 'hub' AND e.id IN (SELECT event_id FROM eventhub.deliveries WHERE subscriber IS NULL
                                    UNION SELECT event_id FROM eventhub.dead_letters WHERE subscriber IS NULL);
INSERT INTO eventhub.routes (queue, tags, priority, type)
SELECT DISTINCT r.queue, r.tags, r.priority, m.type FROM moving m JOIN eventhub.routes r ON r.id = m.old;
UPDATE moving m SET new = n.id
FROM eventhub.routes o JOIN eventhub.routes n ON n.queue = o.queue AND n.tags = o.tags AND n.priority = o.priority
WHERE o.id = m.old AND n.type = m.type;
UPDATE eventhub.events e SET route = m.new FROM moving m WHERE e.id = m.id;
UPDATE eventhub.deliveries d SET route = m.new FROM moving m WHERE d.event_id = m.id AND d.subscriber IS NULL;
UPDATE eventhub.dead_letters l SET route = m.new FROM moving m WHERE l.event_id = m.id AND l.subscriber IS NULL;
UPDATE eventhub.routes SET retired = true WHERE type = '' AND queue <> 'hub';
