-- Lies about the honest story of test_checker.py, each with the rule that must catch it. Events 1 and 2 are work with
-- one key, 3 to 5 are work of one call, 5 is dead; 7 and 8 are broadcasts with one key, as messages 9 and 10.

-- lie: an acknowledged event is gone → lost
DELETE FROM events WHERE id = 1;

-- lie: an acknowledged event is in the lake and gone from the store → lost
INSERT INTO lake_events SELECT id, hash, 1 FROM events WHERE id = 1; DELETE FROM events WHERE id = 1;

-- lie: an acknowledged event hangs → unsettled
INSERT INTO deliveries VALUES (1, 1, NULL, 'key', 1, 1, 1, 0, 3, 'w', 0);

-- lie: a marker is left → unsettled
INSERT INTO markers VALUES (7, 1, NULL);

-- lie: work is completed that nobody did → unseen
DELETE FROM records WHERE op = 'handle' AND id = 3;

-- lie: work is completed that failed → unseen
UPDATE records SET outcome = 'transient' WHERE op = 'handle' AND kind = 'ok' AND id = 3;

-- lie: work was done after its end → unseen
UPDATE records SET fence = 2 WHERE op = 'handle' AND id = 3;

-- lie: a message is completed that nobody got → unseen
DELETE FROM records WHERE op = 'arrive' AND id = 10;

-- lie: a message is completed that nobody took → unseen
UPDATE records SET outcome = '500' WHERE op = 'arrive' AND id = 10;

-- lie: work was finalized without a word of its handler → unseen
DELETE FROM records WHERE op = 'handle' AND id = 5;

-- lie: work was rejected without a word of its handler → unseen
UPDATE dead_letters SET reason = 'rejected'; DELETE FROM records WHERE op = 'handle' AND id = 5;

-- lie: a message was rejected by nobody → unseen
INSERT INTO dead_letters SELECT 90, 9, 7, 6, consumer, key, fence, attempts, failures, max_attempts, worker, errors,
  error_count, 'rejected', status, hash, dead_at, retried_at FROM dead_letters;

-- lie: a subscriber was forgotten → not_handed_out
DELETE FROM log WHERE delivery_id = 10;

-- lie: an event was changed → invented
UPDATE events SET hash = 'other' WHERE id = 1;

-- lie: a key was changed → invented
UPDATE events SET key = 'other' WHERE id = 1;

-- lie: an event came from nowhere → invented
UPDATE events SET token = 'q-1-0' WHERE id = 1;

-- lie: a worker got something else → altered
UPDATE records SET hash = 'x' WHERE op = 'handle' AND id = 1;

-- lie: a claim is of something else → altered
UPDATE records SET hash = 'x' WHERE op = 'claim' AND id = 9;

-- lie: a receiver got something else → arrived_altered
UPDATE records SET hash = 'x' WHERE op = 'arrive' AND id = 10;

-- lie: a receiver got another's message → arrived_altered
UPDATE records SET id = 10 WHERE op = 'arrive' AND id = 9 AND outcome = '500';

-- lie: part of a call is missing → halved
DELETE FROM events WHERE id = 4;

-- lie: a key made two events → stored_twice
INSERT INTO events SELECT 90, type, token, hash, key, payload_key, idempotency, queue, created FROM events WHERE id =
  1;

-- lie: another event was acknowledged → stored_twice
UPDATE records SET id = 3 WHERE op = 'publish' AND kind = 'ok' AND id = 1;

-- lie: a message was made twice → handed_out_twice
INSERT INTO log SELECT 90, id + 1000, event_id, action, worker, attempt, fence, status_code, error, subscriber,
  created FROM log WHERE delivery_id = 9;

-- lie: a key was overtaken → overtaken
UPDATE log SET id = id - 1000 WHERE delivery_id = 2;

-- lie: a key's messages were swapped → overtaken
UPDATE log SET id = id - 1000 WHERE delivery_id = 10;

-- lie: two of a key were in flight → in_flight
UPDATE log SET id = (SELECT max(id) FROM log) + 1 WHERE delivery_id = 1 AND action = 'COMPLETED';

-- lie: two messages of a key were in flight → in_flight
UPDATE log SET id = (SELECT max(id) FROM log) + 1 WHERE delivery_id = 9 AND action = 'COMPLETED';

-- lie: a receiver was overtaken → arrived_overtaken
UPDATE records SET time = time - 1000 WHERE op = 'arrive' AND id = 10;

-- lie: an attempt was not counted → miscounted
UPDATE log SET attempt = 1 WHERE delivery_id = 2 AND fence = 2;

-- lie: a message's attempt was not counted → miscounted
UPDATE log SET attempt = 1 WHERE delivery_id = 9 AND fence = 2;

-- lie: an attempt is beyond the limit → too_many
UPDATE records SET "limit" = 1 WHERE op = 'publish';

-- lie: a message is beyond its limit → too_many
UPDATE subscribers SET max_attempts = 1;

-- lie: a letter came too early → too_few
UPDATE dead_letters SET reason = 'retries_exhausted';

-- lie: an unlimited one was given up → too_few
UPDATE dead_letters SET reason = 'worker_lost', max_attempts = NULL;

-- lie: an event completed twice → ended_twice
INSERT INTO log SELECT delivery_id, (SELECT max(id) FROM log) + 1, event_id, action, worker, attempt, fence,
  status_code, error, subscriber, created FROM log WHERE delivery_id = 1 AND action = 'COMPLETED';

-- lie: a message was sent once more after its end → arrived_late
UPDATE records SET wall = wall + 6 WHERE op = 'arrive' AND id = 10;

-- lie: a message was sent a second after its end, and nothing had been struck → arrived_late
UPDATE records SET wall = wall + 1 WHERE op = 'arrive' AND id = 10; DELETE FROM records WHERE op IN ('kill', 'stop',
  'terminate', 'died', 'fault');

-- lie: a claim while another lasted → overlapping
DELETE FROM log WHERE delivery_id = 2 AND action = 'FAILED';

-- lie: a claim was handed out twice → overlapping
INSERT INTO records (process, kind, op, time, wall, id, fence, until, worker) VALUES ('worker-b.1', 'ok', 'claim', 0,
  0, 1, 1, 0, 'worker-b.1');

-- lie: the sweep took the successor's claim → unfenced
UPDATE log SET action = 'ABANDONED', fence = 2 WHERE delivery_id = 2 AND action = 'FAILED';

-- lie: a fence was used again → unfenced
UPDATE log SET fence = 1 WHERE delivery_id = 9;

-- lie: an accepted report left no trace → untraced
UPDATE log SET action = 'ABANDONED' WHERE delivery_id = 2 AND action = 'FAILED';

-- lie: a claim was reported twice → untraced
INSERT INTO records (process, call, kind, op, time, wall, id, fence, outcome, accepted) SELECT process, 999, kind, op,
  time, wall, id, fence, outcome, accepted FROM records WHERE op = 'report' AND id = 1;

-- lie: a zombie's report was accepted → zombies
INSERT INTO records (process, call, kind, op, time, wall, id, fence, outcome, accepted) SELECT process, 999, kind, op,
  time + 1000, wall, id, fence, outcome, accepted FROM records WHERE op = 'report' AND id = 2 AND fence = 1;

-- lie: an end was reported by nobody → unreported
DELETE FROM records WHERE op = 'report' AND id = 1;

-- lie: a message's end was reported by nobody → unreported
DELETE FROM records WHERE op = 'report' AND id = 10;

-- lie: a claim was taken within its lease → taken_early
UPDATE log SET action = 'ABANDONED' WHERE delivery_id = 2 AND action = 'FAILED';

-- lie: a message was taken within its lease → taken_early
UPDATE log SET action = 'ABANDONED' WHERE delivery_id = 9 AND action = 'FAILED';

-- lie: a claim was taken within its lease from one whose name tells nothing of its process → taken_early
UPDATE log SET action = 'ABANDONED' WHERE delivery_id = 2 AND action = 'FAILED'; INSERT INTO records (process, call,
  kind, op, time, wall, worker) VALUES ('orders', 1, 'ok', 'kill', 0, 0, 'worker-a.1');

-- lie: a claim was taken long after its lease → taken_late
UPDATE log SET action = 'ABANDONED', created = created + 76 WHERE delivery_id = 2 AND action = 'FAILED';

-- lie: the beginning is missing → begun_wrong
DELETE FROM log WHERE delivery_id = 1 AND action = 'PUBLISHED';

-- lie: there is no log at all → begun_wrong
DELETE FROM log WHERE event_id = 1;

-- lie: the end is missing → folded_wrong
DELETE FROM log WHERE delivery_id = 1 AND action = 'COMPLETED';

-- lie: a message's end is missing → folded_wrong
DELETE FROM log WHERE delivery_id = 10 AND action = 'COMPLETED';

-- lie: a letter counts other attempts → folded_wrong
UPDATE dead_letters SET attempts = 3;

-- lie: a dead letter is missing → no_letter
DELETE FROM dead_letters;

-- lie: a dead letter has no errors → incomplete_letter
UPDATE dead_letters SET errors = NULL, error_count = 0;

-- lie: a dead letter has no reason → incomplete_letter
UPDATE dead_letters SET reason = '';

-- lie: a dead letter is of another event → incomplete_letter
UPDATE dead_letters SET hash = 'x';

-- lie: a dead letter misses a failure → incomplete_letter
UPDATE dead_letters SET failures = 0;

-- lie: poison was completed → poison_lived
UPDATE records SET token = 'poison-1' WHERE op = 'publish' AND token = 'p-3-0';

-- lie: poison died of something else → poison_lived
UPDATE records SET token = 'poison-1' WHERE op = 'publish' AND token = 'p-3-2';

-- lie: an event is counted nowhere → unequal
DELETE FROM log WHERE delivery_id = 3 AND action <> 'PUBLISHED';

-- lie: the statistics are wrong → miscounting
UPDATE facts SET value = 6 WHERE key = 'stats.events';

-- lie: a metric is wrong → miscounting
UPDATE facts SET value = 0 WHERE key = 'metric.eventhub_dlq_size';

-- lie: the lake has one twice → lake_wrong
INSERT INTO lake_events SELECT id, hash, 2 FROM events WHERE id = 1;

-- lie: the lake has a stranger → lake_wrong
INSERT INTO lake_events VALUES (99, 'x', 1);

-- lie: the lake has one that the store has lost → lake_wrong
INSERT INTO lake_events SELECT id, hash, 1 FROM events WHERE id = 1; DELETE FROM events WHERE id = 1;

-- lie: the lake lacks one → lake_wrong
INSERT INTO facts VALUES ('lake', 'somewhere');

-- lie: the lake has a changed event → lake_wrong
INSERT INTO lake_events VALUES (1, 'other', 1);

-- lie: the lake has a row of the log twice → lake_wrong
INSERT INTO lake_log SELECT min(id), 2 FROM log;

-- lie: the lake has a stranger in the log → lake_wrong
INSERT INTO lake_log VALUES (999, 1);

-- lie: the lake lacks a row of the log → lake_wrong
INSERT INTO facts VALUES ('lake', 'somewhere'); INSERT INTO lake_events SELECT id, hash, 1 FROM events; INSERT INTO
  lake_log SELECT id, 1 FROM log WHERE id > (SELECT min(id) FROM log);

-- lie: the drain took too long → not_drained
UPDATE facts SET value = 61 WHERE key = 'drain.seconds';

-- lie: good work was called a failure → unexplained
UPDATE log SET action = 'FAILED' WHERE delivery_id = 1 AND action = 'COMPLETED';

-- lie: a claim was worked on twice → unexplained
INSERT INTO records (process, call, kind, op, time, wall, id, fence, outcome) VALUES ('worker-b.1', 1, 'ok', 'handle',
  0, 0, 1, 1, 'success');

-- lie: more arrived than was claimed → unexplained
INSERT INTO records (process, call, kind, op, time, wall, id, worker, key, token, outcome) SELECT process, call, kind,
  op, time, wall, id, worker, key, token, outcome FROM records WHERE op = 'arrive' AND id = 10;

-- lie: a message was sent again to one who wants none twice → sent_again
UPDATE subscribers SET guarantee = 'at_most_once';

-- lie: work was done again though nothing had happened → done_again
INSERT INTO records (process, call, kind, op, time, wall, id, fence, outcome) VALUES ('worker-b.1', 1, 'ok', 'handle',
  0, 0, 1, 2, 'success');

-- lie: a message was done well twice, though its first attempt had an answer → duplicated
UPDATE records SET outcome = '200' WHERE op = 'arrive';

-- lie: nothing was published → idle
DELETE FROM records WHERE op = 'publish';

-- lie: nothing was received → idle
DELETE FROM records WHERE op = 'arrive';

-- lie: nothing was handled → idle
INSERT INTO facts VALUES ('parts', 'work'); DELETE FROM records WHERE op = 'handle';

-- lie: nothing was copied → idle
INSERT INTO facts VALUES ('parts', 'lake'), ('seconds', 60), ('metric.eventhub_pending_messages', 0);

-- lie: something was copied when all was over → idle
INSERT INTO facts VALUES ('parts', 'lake'), ('seconds', 60), ('metric.eventhub_pending_messages', 0); INSERT INTO
  records (process, call, kind, op, time, size) VALUES ('orders', 1, 'ok', 'heal', 1, NULL), ('p', 1, 'ok', 'copy', 2, 9);

-- lie: a metric was not told → idle
INSERT INTO facts VALUES ('parts', 'work,messages');

-- lie: a fault was never done → unharmed
INSERT INTO facts VALUES ('seconds', 60), ('faults', 'poison,reset');

-- lie: a fault hit nothing → unharmed
INSERT INTO facts VALUES ('seconds', 60), ('faults', 'reset'); INSERT INTO records (process, call, kind, op, time,
  wall, worker, outcome, size) VALUES ('orders', 1, 'invoke', 'fault', 1, 1, 'servers', 'reset', NULL),
  ('orders', 1, 'ok', 'fault', 1, 1, 'servers', 'reset', 0);

-- lie: nobody was killed → unharmed
INSERT INTO facts VALUES ('seconds', 60), ('faults', 'kill-worker');

-- lie: the receiver was good → unharmed
INSERT INTO facts VALUES ('seconds', 60), ('faults', 'evil-receiver'); UPDATE records SET outcome = '200' WHERE
  op = 'arrive';

-- lie: a worker died without a reason → died_alone
INSERT INTO records (process, call, kind, op, time, wall, worker) VALUES ('orders', 1, 'ok', 'died', 9, 9, 'worker-b.1');

-- lie: a worker died after it had handled poison → died_alone
INSERT INTO records (process, call, kind, op, time, wall, worker, token) VALUES ('orders', 1, 'ok', 'died', 9, 9,
  'worker-b.1', NULL), ('worker-b.1', 1, 'invoke', 'handle', 8, 8, NULL, 'poison-1'), ('worker-b.1', 1, 'ok', 'handle',
  8, 8, NULL, 'poison-1');

-- lie: a server did not end → stuck
INSERT INTO records (process, call, kind, op, time, wall, worker, error) VALUES ('orders', 1, 'ok', 'stuck', 9, 9,
  'server-a.1', 'not within 45 s');

-- lie: somebody wrote an error → wrote_errors
INSERT INTO facts VALUES ('errors', 'Traceback (most recent call last):');

-- lie: the run was broken off → broken_off
INSERT INTO facts VALUES ('incomplete', 'interrupted');
