-- The handlers that an event of a bus needs, as a JSON array of names, and the bus it belongs to: set when it is
-- published, and the owner again whenever a bus claims it. Both are empty for all other work.
ALTER TABLE eventhub_deliveries ADD COLUMN handlers TEXT;
ALTER TABLE eventhub_deliveries ADD COLUMN owner TEXT;
ALTER TABLE eventhub_dead_letters ADD COLUMN handlers TEXT;

-- Buses by their worker: which handlers each has, and until when it counts as alive unless it is heard of again. The
-- last bus of a queue stays listed, so that whoever looks for missing handlers knows which queues are buses.
CREATE TABLE eventhub_buses (
  worker      TEXT PRIMARY KEY,
  queue       TEXT NOT NULL,
  handlers    TEXT NOT NULL,
  alive_until INTEGER NOT NULL
) WITHOUT ROWID;
