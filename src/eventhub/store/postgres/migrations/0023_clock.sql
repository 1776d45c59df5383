-- A clock that is set back: ``clock`` is about the highest time that a sweep has seen, in microseconds since 1970; one that
-- finds the clock well below it moves everything that waits. What was asked for at a time, ``deliver_at``, stays there.
INSERT INTO eventhub.meta (key, value) VALUES ('clock', '0') ON CONFLICT DO NOTHING;
ALTER TABLE eventhub.events ADD COLUMN deliver_at timestamptz;
