-- An event has any number of deliveries: its status is that of all of them.

-- The ordering key of a message, which its subscriber's configuration chose; that of work is its event's.
ALTER TABLE eventhub_deliveries ADD COLUMN key TEXT;
ALTER TABLE eventhub_dead_letters ADD COLUMN key TEXT;
