-- name: lost_tails
-- From when to when was committed what the database lost, each time: from before the standby was the last time even, until
-- it was promoted; a second more is for what was written down late.
SELECT count(*) FROM records WHERE op = 'fault' AND outcome = 'failover-with-loss';

-- name: forget_tails
-- Of a delivery that was touched in such a time, nobody can tell its whole story: what was done and acknowledged is not in
-- the database. So its event is left out, but for what must be true all the same: it is there once, and is settled in the
-- end. What was acknowledged then may be lost; an id that was must not stand for another event. Tables of the same names
-- stand before those of the evidence.
CREATE TEMP TABLE tails AS
SELECT b.wall AS began, coalesce(e.wall, 9e9) + 1 AS over FROM records b LEFT JOIN records e
  ON e.op = 'fault' AND e.kind = 'ok' AND e.process = b.process AND e.call = b.call
WHERE b.op = 'fault' AND b.kind = 'invoke' AND b.outcome = 'failover-with-loss';
CREATE TEMP TABLE touched (id INTEGER PRIMARY KEY);
INSERT OR IGNORE INTO touched SELECT r.id FROM main.records r JOIN tails t ON r.wall BETWEEN t.began AND t.over
WHERE r.id IS NOT NULL AND r.op IN ('claim', 'report', 'extend', 'handle', 'arrive');
CREATE TEMP TABLE untold (id INTEGER PRIMARY KEY);
INSERT OR IGNORE INTO untold SELECT id FROM touched;
INSERT OR IGNORE INTO untold SELECT event_id FROM main.log WHERE delivery_id IN (SELECT id FROM touched);
INSERT OR IGNORE INTO untold SELECT event_id FROM main.dead_letters WHERE delivery_id IN (SELECT id FROM touched);
INSERT OR IGNORE INTO touched SELECT delivery_id FROM main.log WHERE event_id IN (SELECT id FROM untold);
INSERT OR IGNORE INTO touched SELECT id FROM untold;
CREATE TEMP TABLE records AS SELECT * FROM main.records r
WHERE NOT (r.id IN (SELECT id FROM touched) AND r.op IN ('claim', 'report', 'extend', 'handle', 'arrive'))
  AND NOT (r.op = 'publish' AND r.kind = 'ok' AND r.id NOT IN (SELECT id FROM main.events)
           AND EXISTS (SELECT 1 FROM tails t WHERE r.wall BETWEEN t.began AND t.over));
CREATE TEMP TABLE events AS SELECT * FROM main.events WHERE id NOT IN (SELECT id FROM untold);
CREATE UNIQUE INDEX temp.events_id ON events (id);
CREATE TEMP TABLE log AS SELECT * FROM main.log WHERE event_id NOT IN (SELECT id FROM untold);
CREATE UNIQUE INDEX temp.log_delivery ON log (delivery_id, id);
CREATE TEMP TABLE dead_letters AS SELECT * FROM main.dead_letters WHERE event_id NOT IN (SELECT id FROM untold);
CREATE INDEX temp.dead_letters_delivery ON dead_letters (delivery_id);

-- name: prepare
-- What several invariants ask for, each sorted once. A row of ``steps`` is one of the log with what the log said before it
-- about the same delivery: if every row follows from the one before, the whole story does.
CREATE TEMP TABLE publications AS
SELECT token, hash, batch, size, key, "limit", broadcast, n AS place, min(time) AS began
FROM records WHERE op = 'publish' AND kind = 'invoke' GROUP BY token;
CREATE UNIQUE INDEX temp.publications_token ON publications (token);
CREATE TEMP TABLE acknowledged AS
SELECT token, id, min(time) AS time FROM records
WHERE op = 'publish' AND kind = 'ok' AND id IS NOT NULL GROUP BY token, id;
CREATE INDEX temp.acknowledged_token ON acknowledged (token);
CREATE TEMP TABLE messages (id INTEGER PRIMARY KEY, event_id INTEGER, subscriber INTEGER);
INSERT INTO messages
SELECT id, event_id, max(subscriber) FROM (
  SELECT delivery_id AS id, event_id, subscriber FROM log WHERE subscriber IS NOT NULL
  UNION ALL SELECT id, event_id, subscriber FROM deliveries WHERE subscriber IS NOT NULL
  UNION ALL SELECT delivery_id, event_id, subscriber FROM dead_letters WHERE subscriber IS NOT NULL) GROUP BY id;
CREATE INDEX temp.messages_event ON messages (event_id, subscriber);
CREATE TEMP TABLE steps AS
SELECT delivery_id, id, event_id, action, attempt, fence, worker, created, lag(action) OVER story AS action_before,
       lag(attempt) OVER story AS attempt_before, lag(fence) OVER story AS fence_before,
       lead(created) OVER story AS created_after, lead(id) OVER story IS NULL AS is_last
FROM log WHERE action NOT IN ('STARTED', 'SKIPPED')
WINDOW story AS (PARTITION BY delivery_id ORDER BY id);
CREATE INDEX temp.steps_last ON steps (delivery_id) WHERE is_last;
CREATE INDEX temp.steps_claim ON steps (delivery_id, fence) WHERE action = 'PICKED';
CREATE TEMP TABLE lives (delivery_id INTEGER PRIMARY KEY, event_id INTEGER, first INTEGER, over INTEGER, claims INTEGER,
                         attempts INTEGER, granted INTEGER);
INSERT INTO lives
SELECT delivery_id, event_id, min(id) FILTER (WHERE action = 'PICKED'),
       min(id) FILTER (WHERE action IN ('COMPLETED', 'DEAD', 'CANCELLED')), sum(action = 'PICKED'),
       max(attempt) FILTER (WHERE action = 'PICKED'), sum(action IN ('RESET', 'RETRIED'))
FROM steps GROUP BY delivery_id;
CREATE TEMP TABLE claims AS
SELECT id, fence, process, worker, time, wall, until FROM records WHERE op = 'claim' AND kind = 'ok' AND id IS NOT NULL;
CREATE INDEX temp.claims_claim ON claims (id, fence);
-- Until when claims last for certain, and until when at most: nobody knows of an extension whose answer never came.
CREATE TEMP TABLE leases AS
SELECT id, fence, max(process) AS process, max(worker) AS worker, max(until) FILTER (WHERE certain) AS until,
       max(until) AS longest
FROM (SELECT id, fence, process, worker, until, 1 AS certain FROM claims
      UNION ALL SELECT id, fence, NULL, NULL, until, kind = 'ok' AND accepted FROM records WHERE op = 'extend')
GROUP BY id, fence;
CREATE UNIQUE INDEX temp.leases_claim ON leases (id, fence);
CREATE TEMP TABLE reported AS
SELECT id, fence, outcome, process, call, time FROM records WHERE op = 'report' AND kind = 'invoke';
CREATE INDEX temp.reported_claim ON reported (id, fence);
CREATE TEMP TABLE accepted AS
SELECT id, fence, outcome, process, call FROM records WHERE op = 'report' AND kind = 'ok' AND accepted;
CREATE TEMP TABLE arrivals AS
SELECT id, worker AS path, key, token, hash, outcome, process, time, wall, n FROM records
WHERE op = 'arrive' AND kind = 'ok';
CREATE INDEX temp.arrivals_message ON arrivals (id);
CREATE TEMP TABLE handlings AS
SELECT id, fence, process, outcome FROM records WHERE op = 'handle' AND kind = 'ok';
CREATE INDEX temp.handlings_claim ON handlings (id, fence);
CREATE TEMP VIEW handled AS SELECT id, fence, process FROM handlings WHERE outcome = 'success';
-- Whether the reports of both kinds of deliveries were written down at all.
CREATE TEMP TABLE watched AS
SELECT EXISTS (SELECT 1 FROM reported r WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = r.id)) AS work,
       EXISTS (SELECT 1 FROM reported r JOIN messages m ON m.id = r.id) AS messages;
-- When processes went: killed, told twice to end, ended by themselves, or found dead; then their last words are the
-- earliest moment.
CREATE TEMP TABLE gone AS
SELECT process, min(wall) AS wall FROM (
  SELECT worker AS process, wall FROM records WHERE op = 'kill' AND kind = 'ok'
  UNION ALL SELECT worker, max(wall) FROM records WHERE op = 'terminate' AND kind = 'ok' GROUP BY worker HAVING count(*) > 1
  UNION ALL SELECT process, wall FROM records WHERE op = 'end' AND kind = 'ok'
  UNION ALL SELECT r.process, max(r.wall) FROM records r
            WHERE r.process IN (SELECT worker FROM records WHERE op = 'died') GROUP BY r.process) GROUP BY process;
CREATE UNIQUE INDEX temp.gone_process ON gone (process);
-- Receivers that were ended while others went on: what arrived last may not have been answered.
CREATE TEMP TABLE interrupted AS
SELECT worker AS process, min(wall) AS wall FROM records
WHERE op IN ('kill', 'terminate') AND kind = 'ok' AND wall < (SELECT max(wall) FROM arrivals) GROUP BY worker;
-- Faults, from their beginning to their end, and how often each has hit something.
CREATE TEMP TABLE faults AS
SELECT b.outcome AS name, b.worker AS whom, b.wall AS began, coalesce(e.wall, 9e9) AS over, coalesce(e.size, 0) AS hits
FROM records b LEFT JOIN records e
  ON e.op = 'fault' AND e.kind = 'ok' AND e.process = b.process AND e.call = b.call
WHERE b.op = 'fault' AND b.kind = 'invoke';
-- What happened to single processes.
CREATE TEMP TABLE struck AS
SELECT r.worker AS process, r.wall AS began, CASE r.op WHEN 'stop' THEN coalesce(
         (SELECT min(c.wall) FROM records c WHERE c.op = 'cont' AND c.worker = r.worker AND c.wall >= r.wall), 9e9)
       ELSE r.wall END AS over
FROM records r WHERE r.op IN ('kill', 'stop', 'terminate', 'died') AND r.kind = 'ok';
CREATE INDEX temp.struck_process ON struck (process);
-- When everybody may have been struck: a fault of the database or of a line that hit something, or the end of a receiver.
-- What overlaps is one.
CREATE TEMP TABLE storms AS
SELECT min(began) AS began, max(over) AS over
FROM (SELECT began, over, sum(apart) OVER (ORDER BY began, over) AS storm
      FROM (SELECT began, over, began > coalesce(max(over) OVER (ORDER BY began, over
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -1) AS apart
            FROM (SELECT began, over FROM faults WHERE whom IN ('database', 'servers') AND (hits > 0 OR over = 9e9)
                  UNION ALL SELECT wall, wall FROM interrupted WHERE process IN (SELECT process FROM arrivals))))
GROUP BY storm;
CREATE INDEX temp.storms_began ON storms (began);
-- The deliveries of ordering keys in the order of their first claims.
CREATE TEMP TABLE lanes AS
SELECT * FROM (
SELECT CASE WHEN m.id IS NULL THEN e.queue ELSE m.subscriber END AS consumer,
       CASE WHEN m.id IS NULL OR s.ordering_key = 'ordering_key' THEN e.key
            WHEN s.ordering_key = 'payload.key' THEN e.payload_key END AS key,
       l.delivery_id, l.event_id, l.first, l.over, p.token, p.batch, p.place, p.began,
       (SELECT min(a.time) FROM acknowledged a WHERE a.token = p.token) AS acknowledged
FROM lives l CROSS JOIN events e ON e.id = l.event_id LEFT JOIN messages m ON m.id = l.delivery_id
LEFT JOIN subscribers s ON s.id = m.subscriber LEFT JOIN publications p ON p.token = e.token
WHERE l.first IS NOT NULL) WHERE key IS NOT NULL;

-- name: duplicates
-- Claims whose work may be done again: they were open at somebody when he was struck, or at anybody in a storm (a tenth
-- of a second more or less), or when their lease ended.
CREATE TEMP TABLE endangered AS
SELECT c.id, c.fence FROM claims c CROSS JOIN leases l ON l.id = c.id AND l.fence = c.fence
LEFT JOIN steps p ON p.action = 'PICKED' AND p.delivery_id = c.id AND p.fence = c.fence
WHERE coalesce(p.created_after, 9e9) >= l.until
   OR EXISTS (SELECT 1 FROM struck s WHERE s.process IN (c.process, c.worker)
              AND s.began <= p.created_after + 0.1 AND s.over >= c.wall - 0.1)
   OR (SELECT s.over FROM storms s WHERE s.began <= p.created_after + 0.1 ORDER BY s.began DESC LIMIT 1) >= c.wall - 0.1;
CREATE INDEX temp.endangered_claim ON endangered (id, fence);
-- What was done well more than once, each with the attempts of its own that explain it: of those nobody knows whether they
-- did anything, for the claim was lost or given back, or its request had no answer. An attempt with an answer, good or bad,
-- explains nothing, whatever struck others meanwhile.
CREATE TEMP TABLE duplicates AS
SELECT d.id, d.times - 1 AS made,
       (SELECT count(*) FROM log g WHERE g.delivery_id = d.id AND (
          g.action IN ('ABANDONED', 'RELEASED', 'RESET')
          OR g.action = 'FAILED' AND g.status_code IS NULL AND m.id IS NOT NULL)) AS explained
FROM (SELECT id, count(*) AS times FROM handled GROUP BY id HAVING count(*) > 1
      UNION ALL
      SELECT id, count(*) FROM arrivals WHERE outcome LIKE '2%' GROUP BY id HAVING count(*) > 1) d
LEFT JOIN messages m ON m.id = d.id;
