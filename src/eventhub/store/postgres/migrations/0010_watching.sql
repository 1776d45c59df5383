-- For those who watch: what was logged in a range of time, and events by the time they were stored.

-- Rows come in the order of their times, or nearly: an index of ranges costs those who write next to nothing.
CREATE INDEX event_log_created ON eventhub.event_log USING brin (created_at) WITH (pages_per_range = 32, autosummarize = on);

-- The id of the first event that was stored at or after a time, found by halves over the primary key, for ids grow with
-- time; one above all ids when there is none.
CREATE FUNCTION eventhub.first_event_since(moment timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  low bigint;
  high bigint;
  middle bigint;
  met record;
BEGIN
  SELECT min(id), max(id) + 1 INTO low, high FROM eventhub.events;
  IF low IS NULL THEN
    RETURN 1;
  END IF;
  WHILE low < high LOOP
    middle := low + (high - low) / 2;
    SELECT e.id, e.created_at INTO met FROM eventhub.events e WHERE e.id >= middle ORDER BY e.id LIMIT 1;
    IF met.created_at < moment THEN
      low := met.id + 1;
    ELSE
      high := middle;
    END IF;
  END LOOP;
  RETURN low;
END $$;
