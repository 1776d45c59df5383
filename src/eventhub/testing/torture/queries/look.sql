-- name: has_schema
-- Of PostgreSQL, as all of this file: whether anything of a hub is there.
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'eventhub');

-- name: schema_version
-- The version of the hub's tables; none where they are somebody else's.
SELECT value FROM eventhub.meta WHERE key = 'schema_version';

-- name: kept_there
-- What a hub keeps there that somebody may miss: the names of its tables that are not empty.
SELECT name FROM (
  SELECT 'events' AS name, EXISTS (SELECT 1 FROM eventhub.events) AS there
  UNION ALL SELECT 'event_log', EXISTS (SELECT 1 FROM eventhub.event_log)
  UNION ALL SELECT 'deliveries', EXISTS (SELECT 1 FROM eventhub.deliveries)
  UNION ALL SELECT 'dead_letters', EXISTS (SELECT 1 FROM eventhub.dead_letters)
  UNION ALL SELECT 'subscribers', EXISTS (SELECT 1 FROM eventhub.subscribers)
  UNION ALL SELECT 'attempts', EXISTS (SELECT 1 FROM eventhub.attempts)
  UNION ALL SELECT 'fanout', EXISTS (SELECT 1 FROM eventhub.fanout)
  UNION ALL SELECT 'api_keys', EXISTS (SELECT 1 FROM eventhub.api_keys)
  UNION ALL SELECT 'idempotency_keys', EXISTS (SELECT 1 FROM eventhub.idempotency_keys)
  UNION ALL SELECT 'lake_commits', EXISTS (SELECT 1 FROM eventhub.lake_commits)
  UNION ALL SELECT 'handler_results', EXISTS (SELECT 1 FROM eventhub.handler_results)
  UNION ALL SELECT 'guards', EXISTS (SELECT 1 FROM eventhub.guards)
  UNION ALL SELECT 'workers', EXISTS (SELECT 1 FROM eventhub.workers)
  UNION ALL SELECT 'lanes', EXISTS (SELECT 1 FROM eventhub.lanes)
  UNION ALL SELECT 'routes', EXISTS (SELECT 1 FROM eventhub.routes)) kept
WHERE there;

-- name: server_clock
-- What is compared with the clock of this machine.
SELECT extract(epoch FROM clock_timestamp())::float8;
