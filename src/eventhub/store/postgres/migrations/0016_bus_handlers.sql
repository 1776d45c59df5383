-- The handlers that an event of a bus needs, as a JSON array of names, and the bus it belongs to: set when it is
-- published, and the owner again whenever a bus claims it. Both are empty for all other work.
ALTER TABLE eventhub.deliveries ADD COLUMN handlers text;
ALTER TABLE eventhub.deliveries ADD COLUMN owner text;
ALTER TABLE eventhub.dead_letters ADD COLUMN handlers text;

-- Buses by their worker: which handlers each has, and until when it counts as alive unless it is heard of again. The
-- last bus of a queue stays listed, so that whoever looks for missing handlers knows which queues are buses.
CREATE TABLE eventhub.buses (
  worker      text PRIMARY KEY,
  queue       text NOT NULL,
  handlers    text NOT NULL,
  alive_until timestamptz NOT NULL
);
