-- Old days of the log leave as a whole: deleting their rows one by one would leave as much to vacuum.

-- Drop the partition of a day if all its rows were copied (below that position) and exactly those that were compared with
-- the lake's are free to go: their event is gone. The others, which are few or else nothing is dropped, go on living in the
-- default partition, unchanged. Returns whether the day was dropped. A row that is still to be copied is never moved: who
-- copies may be reading just now, part by part, and would meet it twice.
-- First only the partition is locked, so that nobody can add to it while its rows are looked through; all others wait
-- only for the drop itself.
CREATE FUNCTION eventhub.drop_log_day(old date, below bigint, compared bigint, most bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  name text := 'event_log_' || to_char(old, 'YYYYMMDD');
  first timestamptz := old::timestamp AT TIME ZONE 'UTC';
  until timestamptz := (old + 1)::timestamp AT TIME ZONE 'UTC';
  total bigint;
  fresh bigint;
  staying bigint;
  kept eventhub.event_log[];
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
                 WHERE i.inhparent = 'eventhub.event_log'::regclass AND c.relname = name) THEN
    RETURN false;
  END IF;
  EXECUTE format('LOCK TABLE eventhub.%I IN SHARE ROW EXCLUSIVE MODE', name);
  SELECT count(*), count(*) FILTER (WHERE g.xid >= below), count(e.id) INTO total, fresh, staying
  FROM eventhub.event_log g LEFT JOIN eventhub.events e ON e.id = g.event_id
  WHERE g.created_at >= first AND g.created_at < until;
  IF fresh > 0 OR staying > most OR total - staying <> compared THEN
    RETURN false;
  END IF;
  IF staying > 0 THEN
    SELECT array_agg(g) INTO kept FROM eventhub.event_log g
    WHERE g.created_at >= first AND g.created_at < until
      AND EXISTS (SELECT 1 FROM eventhub.events e WHERE e.id = g.event_id);
    IF cardinality(kept) <> staying THEN
      RETURN false;
    END IF;
  END IF;
  EXECUTE format('DROP TABLE eventhub.%I', name);
  IF staying > 0 THEN
    INSERT INTO eventhub.event_log OVERRIDING SYSTEM VALUE SELECT k.* FROM unnest(kept) AS k;
  END IF;
  RETURN true;
END $$;
