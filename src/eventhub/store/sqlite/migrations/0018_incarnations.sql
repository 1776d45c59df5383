-- Incarnations: a file is another one after it was replaced by a copy of it, which only its owner knows.

-- Numbers are for people; ``incarnation_began`` tells which of two is the later, in microseconds since 1970.
INSERT INTO eventhub_meta (key, value) VALUES ('incarnation', '1'), ('incarnation_began', '0') ON CONFLICT DO NOTHING;
