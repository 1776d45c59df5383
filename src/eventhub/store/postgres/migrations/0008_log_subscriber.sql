-- Whose message it was: written when one is taken and when one is cancelled, so that the history can tell it without
-- asking the present. Rows about work have none.
ALTER TABLE eventhub.event_log ADD COLUMN subscriber bigint;
