-- name: announce_bus
-- A bus says again and again that it is alive, and which handlers it has.
INSERT INTO eventhub.buses (worker, queue, handlers, alive_until)
VALUES ($1, $2, $3, coalesce($5, now()) + $4::interval)
ON CONFLICT (worker) DO UPDATE SET handlers = excluded.handlers, alive_until = excluded.alive_until;

-- name: forget_buses
-- Buses of the queue that were not heard of in time; the one that writes this stays, so a queue never has none.
DELETE FROM eventhub.buses WHERE queue = $2 AND worker <> $1 AND alive_until <= coalesce($3, now());

-- name: buses
SELECT worker, queue, handlers, alive_until > coalesce($2, now()) FROM eventhub.buses
WHERE $1::text IS NULL OR queue = $1 ORDER BY worker;
