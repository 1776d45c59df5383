-- Keys under a session that holds an old snapshot: what has left them keeps its entries in the indexes, and a unique index
-- on the key would have every new head step over all of them. In the order of ids there is a place to start behind them.
-- That a key has one head is the work of whoever holds the lock on its lane.
DROP INDEX eventhub.deliveries_head;
CREATE INDEX deliveries_head ON eventhub.deliveries (lane, id) WHERE lane IS NOT NULL AND state <> 2;
-- Whether something older than its head may be behind it, which came back from the dead: of keys from before, nobody knows.
ALTER TABLE eventhub.lanes ADD COLUMN returned boolean NOT NULL DEFAULT true;
ALTER TABLE eventhub.lanes ALTER COLUMN returned SET DEFAULT false;
