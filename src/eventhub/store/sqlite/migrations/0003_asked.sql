-- What was asked for under a key, as a digest: an event keeps neither its priority nor when it was to be delivered, and
-- a second request that differs in these is another one. Keys of earlier versions have none.
ALTER TABLE eventhub_idempotency_keys ADD COLUMN asked BLOB;
