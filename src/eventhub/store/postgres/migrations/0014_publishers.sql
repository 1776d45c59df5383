-- Events remember who published them over HTTP: the name of the API key. Idempotency keys belong to publishers, and last
-- for a while after their event has ended; ``ended_at`` is when an event that is gone was archived.
ALTER TABLE eventhub.events ADD COLUMN published_by text;
ALTER TABLE eventhub.idempotency_keys ADD COLUMN ended_at timestamptz;
CREATE INDEX idempotency_keys_created ON eventhub.idempotency_keys (created_at);
