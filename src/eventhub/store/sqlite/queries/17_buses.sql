-- name: announce_bus
-- A bus says again and again that it is alive, and which handlers it has.
INSERT INTO eventhub_buses (worker, queue, handlers, alive_until) VALUES (:worker, :queue, :handlers, :until)
ON CONFLICT (worker) DO UPDATE SET handlers = excluded.handlers, alive_until = excluded.alive_until;

-- name: forget_buses
-- Buses of the queue that were not heard of in time; the one that writes this stays, so a queue never has none.
DELETE FROM eventhub_buses WHERE queue = :queue AND worker <> :worker AND alive_until <= :now;

-- name: buses
SELECT worker, queue, handlers, alive_until > :now FROM eventhub_buses WHERE :queue IS NULL OR queue = :queue
ORDER BY worker;
