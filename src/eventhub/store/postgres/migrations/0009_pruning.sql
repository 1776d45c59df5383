-- Old days of the log leave as a whole: deleting their rows one by one would leave as much to vacuum.

-- Drop the partition of a day if all its rows are free to go: they were copied (below that position), their event is
-- gone, and there are as many of them as were compared with the lake's. Rows are never moved: whoever reads part by part
-- just now might meet them twice, or not at all. Returns whether the day was dropped.
-- First only the partition is locked, so that nobody can add to it while its rows are looked through; all others wait
-- only for the drop itself.
CREATE FUNCTION eventhub.drop_log_day(old date, below bigint, compared bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  name text := 'event_log_' || to_char(old, 'YYYYMMDD');
  total bigint;
  staying bigint;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
                 WHERE i.inhparent = 'eventhub.event_log'::regclass AND c.relname = name) THEN
    RETURN false;
  END IF;
  EXECUTE format('LOCK TABLE eventhub.%I IN SHARE ROW EXCLUSIVE MODE', name);
  SELECT count(*), count(*) FILTER (WHERE e.id IS NOT NULL OR g.xid >= below) INTO total, staying
  FROM eventhub.event_log g LEFT JOIN eventhub.events e ON e.id = g.event_id
  WHERE g.created_at >= old::timestamp AT TIME ZONE 'UTC' AND g.created_at < (old + 1)::timestamp AT TIME ZONE 'UTC';
  IF staying > 0 OR total <> compared THEN
    RETURN false;
  END IF;
  EXECUTE format('DROP TABLE eventhub.%I', name);
  RETURN true;
END $$;
