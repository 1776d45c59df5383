-- Over HTTP a claim belongs to the API key that took it, by its name: another key with the same worker's name does not
-- have it.
ALTER TABLE eventhub.deliveries ADD COLUMN claimed_by text;
