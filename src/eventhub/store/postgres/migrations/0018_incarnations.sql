-- Incarnations: a database is another one after it was restored, or has failed over and lost its last commits.

-- ``place`` is the server, the timeline, the database and the table that the incarnation was begun in; whoever opens the
-- database first notes it. Numbers are for people; ``incarnation_began`` tells which of two is the later, in microseconds
-- since 1970.
INSERT INTO eventhub.meta (key, value) VALUES ('incarnation', '1'), ('incarnation_began', '0') ON CONFLICT DO NOTHING;

-- Begin a new incarnation, unless another process was first. What was given out since the state that this database is
-- in, nobody knows; so everything that grows goes on far above it. Ids go on at the time in microseconds, as no database
-- gives out a million ids a second: so they are above those of every copy that ever was, however often it is restored.
-- With ``forced`` somebody says so; else the database must have been found in another place than noted.
CREATE FUNCTION eventhub.begin_incarnation(here text, forced boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  noted text;
  start bigint;
BEGIN
  PERFORM value FROM eventhub.meta WHERE key = 'incarnation' FOR UPDATE;
  SELECT value INTO noted FROM eventhub.meta WHERE key = 'place';
  IF NOT forced AND noted = here THEN
    RETURN false;
  END IF;
  INSERT INTO eventhub.meta (key, value) VALUES ('place', here) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
  IF NOT forced AND noted IS NULL THEN
    RETURN false;
  END IF;
  SELECT greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, s.last_value + 4294967296) INTO start
  FROM eventhub.ids s;
  PERFORM setval('eventhub.ids', start);
  PERFORM setval(s.name, CASE s.type WHEN 'bigint'::regtype THEN greatest(start, nextval(s.name) + 4294967296)
                              ELSE nextval(s.name) + 1000000 END)
  FROM (SELECT pg_get_serial_sequence(c.oid::regclass::text, a.attname) AS name, a.atttypid AS type
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'eventhub'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND a.attidentity <> '') s;
  UPDATE eventhub.meta SET value = greatest(start, value::bigint + 1)::text
  WHERE key IN ('incarnation_began', 'subscribers', 'subscriber_states');
  UPDATE eventhub.meta SET value = (value::bigint + 1)::text WHERE key = 'incarnation';
  UPDATE eventhub.subscribers SET version = version + 1000000;
  UPDATE eventhub.locks SET fence = fence + 1000000;
  RETURN true;
END $$;
