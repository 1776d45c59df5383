-- name: lost
-- 1. Acknowledged means: there for good; or in the lake, where a run archives, which says so by the fact ``archives``.
SELECT format('event %d (%s) was acknowledged and is lost', a.id, a.token) FROM acknowledged a
WHERE NOT EXISTS (SELECT 1 FROM main.events e WHERE e.id = a.id AND e.token IS a.token)
  AND NOT (EXISTS (SELECT 1 FROM facts WHERE key = 'archives')
           AND EXISTS (SELECT 1 FROM lake_events l WHERE l.id = a.id)
           AND NOT EXISTS (SELECT 1 FROM events e WHERE e.id = a.id));

-- name: unsettled
-- 1. After the drain nothing is open; what is parked is dead.
SELECT format('delivery %d of event %d is still open (state %d) after the drain', d.id, d.event_id, d.state)
FROM deliveries d WHERE d.state <> 4
UNION ALL SELECT format('event %d still waits to be handed out', event_id) FROM markers;

-- name: unseen
-- 1. What is called completed, rejected or finalized was seen to be so: by the receiver that answered, or by the handler.
-- Both write before they answer. What a handler said under an earlier claim may be remembered.
SELECT format('delivery %d is COMPLETED under fence %d, and nobody did it', g.delivery_id, g.fence)
FROM log g LEFT JOIN messages m ON m.id = g.delivery_id
WHERE g.action = 'COMPLETED' AND g.fence > 0
  AND CASE WHEN m.id IS NULL
           THEN NOT EXISTS (SELECT 1 FROM handled h WHERE h.id = g.delivery_id AND h.fence <= g.fence)
           ELSE NOT EXISTS (SELECT 1 FROM arrivals a WHERE a.id = g.delivery_id AND a.outcome LIKE '2%') END
UNION ALL
SELECT format('delivery %d is dead (%s), and nobody said so', l.delivery_id, l.reason)
FROM dead_letters l LEFT JOIN messages m ON m.id = l.delivery_id
WHERE (m.id IS NULL AND l.reason IN ('finalized', 'rejected')
       AND NOT EXISTS (SELECT 1 FROM handlings h
                       WHERE h.id = l.delivery_id AND h.fence <= l.fence AND h.outcome = 'permanent'))
   OR (m.id IS NOT NULL AND l.reason = 'rejected'
       AND NOT EXISTS (SELECT 1 FROM arrivals a WHERE a.id = l.delivery_id AND a.outcome = '404'));

-- name: not_handed_out
-- 1. A broadcast reaches every subscriber that was there before it and wants it. Where the publisher did not say what it
-- was, an event that has a message, or no work, was one.
SELECT format('event %d (%s) was never handed out to subscriber %d', e.id, e.token, s.id)
FROM subscribers s CROSS JOIN events e
JOIN wants w ON w.type = e.type AND w.subscriber = s.id
LEFT JOIN publications p ON p.token = e.token
WHERE NOT s.filtered AND e.created > s.created
  AND coalesce(p.broadcast, EXISTS (SELECT 1 FROM messages m WHERE m.event_id = e.id)
                         OR NOT EXISTS (SELECT 1 FROM lives l WHERE l.delivery_id = e.id AND l.claims > 0))
  AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.event_id = e.id AND m.subscriber = s.id)
  AND NOT EXISTS (SELECT 1 FROM markers f WHERE f.event_id = e.id)
  AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.id = e.id);

-- name: invented
-- 2. What is stored was to be published, and is what was to be published. The hub's own news are its own.
SELECT CASE WHEN p.token IS NULL THEN format('event %d (%s) was never published', e.id, e.token)
            ELSE format('event %d (%s) is not what was published', e.id, e.token) END
FROM events e LEFT JOIN publications p ON p.token = e.token
WHERE (p.token IS NULL OR p.hash IS NOT e.hash OR p.key IS NOT e.key) AND e.type NOT LIKE 'hub.%';

-- name: altered
-- 2. Workers get what is stored.
SELECT format('%s %s event %d with content that is not in the store', r.process,
              CASE r.op WHEN 'claim' THEN 'claimed' ELSE 'handled' END, r.id)
FROM records r LEFT JOIN messages m ON m.id = r.id LEFT JOIN events e ON e.id = coalesce(m.event_id, r.id)
WHERE ((r.op = 'handle' AND r.kind = 'invoke') OR (r.op = 'claim' AND r.kind = 'ok'))
  AND r.id IS NOT NULL AND r.hash IS NOT NULL AND e.hash IS NOT r.hash;

-- name: arrived_altered
-- 2. Receivers get what is stored, under the number of its message.
SELECT format('%s got message %d (%s), which is not what is stored (%s)', a.path, a.id, a.token, e.token)
FROM arrivals a LEFT JOIN messages m ON m.id = a.id LEFT JOIN events e ON e.id = m.event_id
WHERE e.id IS NULL OR e.token IS NOT a.token OR (a.hash IS NOT NULL AND a.hash IS NOT e.hash);

-- name: stored_twice
-- 2. However often a call is made under its key, it is one event, and the one that was acknowledged.
SELECT format('%s was stored %d times: %s', token, count(*), group_concat(id)) FROM main.events
WHERE token IS NOT NULL GROUP BY token HAVING count(*) > 1
UNION ALL
SELECT format('%s was acknowledged as %d, which is %s', a.token, a.id, e.token)
FROM acknowledged a JOIN main.events e ON e.id = a.id WHERE e.token IS NOT a.token;

-- name: halved
-- 2. The events of one call are all there, or none of them.
SELECT format('%d of %d events of call %s are there', found, size, batch)
FROM (SELECT batch, max(size) AS size, sum(EXISTS (SELECT 1 FROM main.events e WHERE e.token = p.token)) AS found
      FROM publications p WHERE batch IS NOT NULL GROUP BY batch)
WHERE found NOT IN (0, size);

-- name: handed_out_twice
-- 2. One message for each subscriber.
SELECT format('event %d was handed out %d times to subscriber %d: %s', event_id, count(*), subscriber, group_concat(id))
FROM messages GROUP BY event_id, subscriber HAVING count(*) > 1;

-- name: overtaken
-- 3. First claims follow the order of publishing: what was acknowledged before the other began comes first.
SELECT format('%s of %s: %s was claimed after one that was published later', key, consumer, token)
FROM (SELECT *, max(began) OVER (PARTITION BY consumer, key ORDER BY first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                  AS latest FROM lanes)
WHERE acknowledged < latest
UNION ALL
SELECT format('%s of %s: %s comes before its predecessor in their call', key, consumer, token)
FROM (SELECT *, lag(place) OVER (PARTITION BY consumer, key, batch ORDER BY first) AS before FROM lanes WHERE batch IS NOT NULL)
WHERE place < before;

-- name: in_flight
-- 3. From the first claim of a delivery to its end, retries included, no other of its key is claimed.
SELECT format('%s of %s: delivery %d was claimed while an earlier one was not settled', key, consumer, delivery_id)
FROM (SELECT *, max(coalesce(over, 9223372036854775807))
                  OVER (PARTITION BY consumer, key ORDER BY first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS taken
      FROM lanes)
WHERE taken > first;

-- name: arrived_overtaken
-- 3. Receivers see each key in order: whatever comes for the first time comes after all that came before. One that was given
-- up with its dispatcher may still arrive, from a process that had been stopped.
SELECT format('%s, %s: message %d arrived after message %d', path, key, id, latest)
FROM (SELECT *, max(id) OVER (PARTITION BY path, key ORDER BY time, n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                  AS latest
      FROM (SELECT id, path, key, min(time) AS time, n FROM arrivals WHERE key IS NOT NULL GROUP BY id, path)) o
WHERE o.id < o.latest
  AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.delivery_id = o.id AND d.reason = 'worker_lost');

-- name: miscounted
-- 4. Attempts are counted one by one: a claim is one more, one that is given back was none.
SELECT format('delivery %d: %s is attempt %s after %s %s', delivery_id, action, attempt, action_before, attempt_before)
FROM steps
WHERE coalesce(attempt, 0) <> coalesce(attempt_before, 0) + (action = 'PICKED') - (action = 'RELEASED')
  AND action NOT IN ('RETRIED', 'PUBLISHED');

-- name: too_many
-- 4. Nobody tries more often than allowed, unless an operator grants it.
SELECT format('delivery %d was attempted %d times, %d are allowed', l.delivery_id, l.attempts, coalesce(s.max_attempts, p."limit"))
FROM lives l CROSS JOIN events e ON e.id = l.event_id LEFT JOIN messages m ON m.id = l.delivery_id
LEFT JOIN subscribers s ON s.id = m.subscriber LEFT JOIN publications p ON p.token = e.token AND m.id IS NULL
WHERE l.attempts > coalesce(s.max_attempts, p."limit") AND NOT l.granted
UNION ALL
SELECT format('delivery %d was attempted %d times, its letter says that %d are allowed', delivery_id, attempts, max_attempts)
FROM dead_letters WHERE attempts > max_attempts;

-- name: too_few
-- 4. Nor is anything given up before its last attempt.
SELECT format('delivery %d was given up (%s) after %d attempts, %s are allowed', delivery_id, reason, attempts,
              coalesce(max_attempts, 'any number'))
FROM dead_letters
WHERE (reason = 'worker_lost' AND max_attempts IS NULL)
   OR (reason IN ('worker_lost', 'retries_exhausted') AND attempts < max_attempts);

-- name: ended_twice
-- 5. After the end there is nothing, unless somebody begins again.
SELECT format('delivery %d: %s after %s', delivery_id, action, action_before) FROM steps
WHERE action_before IN ('COMPLETED', 'DEAD', 'CANCELLED') AND action <> 'RETRIED';

-- name: arrived_late
-- 5. Nor is anything sent after the end. Five seconds are for what was on its way when its dispatcher was struck, for
-- then its claim may have ended before its request; else a request ends first, and half a second is for a busy machine.
SELECT format('message %d (%s) arrived %.1f s after its end', a.id, a.token, a.wall - s.created)
FROM arrivals a CROSS JOIN steps s ON s.delivery_id = a.id AND s.is_last
WHERE s.action IN ('COMPLETED', 'DEAD', 'CANCELLED') AND a.wall > s.created + 0.5
  AND (a.wall > s.created + 5
       OR NOT EXISTS (SELECT 1 FROM claims c JOIN struck k ON k.process IN (c.process, c.worker)
                      WHERE c.id = a.id AND k.began <= a.wall AND k.over >= c.wall)
          AND NOT EXISTS (SELECT 1 FROM storms t WHERE t.began <= a.wall AND t.over >= a.wall - 15));

-- name: overlapping
-- 6. A delivery is claimed only when the claim before has ended.
SELECT format('delivery %d: claim %d while claim %d had not ended', delivery_id, fence, fence_before) FROM steps
WHERE action = 'PICKED' AND action_before = 'PICKED'
UNION ALL
SELECT format('claim %d of delivery %d was handed out %d times: %s', fence, id, count(*), group_concat(process))
FROM claims GROUP BY id, fence HAVING count(*) > 1;

-- name: unfenced
-- 6. Fences rise by one with every claim, in a new incarnation of the database to its first one, and whatever ends a claim does so under its fence, once.
SELECT format('delivery %d: %s under fence %s after %s under %s', delivery_id, action, fence, action_before, fence_before)
FROM steps
WHERE (action = 'PICKED' AND fence IS NOT coalesce(fence_before, 0) + 1
       AND NOT (fence % 1000000 = 1 AND fence > coalesce(fence_before, 0)))
   OR (action IN ('FAILED', 'ABANDONED', 'RELEASED', 'RESET')
       AND (fence IS NOT fence_before OR action_before IS NOT 'PICKED'))
   OR (action = 'COMPLETED' AND coalesce(attempt, 0) > 0
       AND (fence IS NOT fence_before OR action_before IS NOT 'PICKED'))
   OR (action = 'DEAD' AND coalesce(fence, 0) <> coalesce(fence_before, 0));

-- name: untraced
-- 6. What was accepted is in the log.
SELECT format('%s: %s of claim %d:%d was accepted and is not in the log', a.process, a.outcome, a.id, a.fence)
FROM accepted a
WHERE NOT EXISTS (SELECT 1 FROM log g WHERE g.delivery_id = a.id AND g.fence = a.fence
                  AND g.action = CASE a.outcome WHEN 'Complete' THEN 'COMPLETED' WHEN 'Retry' THEN 'FAILED'
                                                WHEN 'Release' THEN 'RELEASED' ELSE 'DEAD' END)
  AND EXISTS (SELECT 1 FROM log g WHERE g.delivery_id = a.id)
UNION ALL
SELECT format('%d reports of claim %d:%d were accepted', count(*), id, fence) FROM accepted
GROUP BY id, fence HAVING count(*) > 1;

-- name: zombies
-- 6. Once a higher fence was handed out, nothing reported afterwards under a lower one is accepted.
SELECT format('%s reported %d:%d after fence %d had been handed out', process, id, reported, highest)
FROM (SELECT *, max(claimed) OVER (PARTITION BY id ORDER BY time, claimed ROWS UNBOUNDED PRECEDING) AS highest
      FROM (SELECT id, time, fence AS claimed, NULL AS reported, process FROM claims
            UNION ALL
            SELECT a.id, min(r.time), NULL, a.fence, a.process FROM accepted a
            CROSS JOIN reported r ON r.id = a.id AND r.fence = a.fence AND r.process = a.process AND r.call = a.call
            GROUP BY a.id, a.fence, a.process, a.call))
WHERE reported < highest;

-- name: unreported
-- 6. What the log says of a claim's end, somebody reported, unless the claim was lost. A claim whose caller had gone before
-- it was answered is given back by the store itself.
SELECT format('delivery %d: %s under fence %d, and nobody reported it', g.delivery_id, g.action, g.fence)
FROM log g CROSS JOIN watched w
WHERE g.action IN ('COMPLETED', 'FAILED', 'RELEASED', 'DEAD') AND g.fence > 0
  AND CASE WHEN g.delivery_id = g.event_id THEN w.work ELSE w.messages END
  AND NOT EXISTS (SELECT 1 FROM reported r WHERE r.id = g.delivery_id AND r.fence = g.fence
                  AND r.outcome = CASE g.action WHEN 'COMPLETED' THEN 'Complete' WHEN 'RELEASED' THEN 'Release'
                                                WHEN 'DEAD' THEN 'Bury'
                                  ELSE CASE WHEN EXISTS (SELECT 1 FROM log d WHERE d.delivery_id = g.delivery_id
                                                         AND d.fence = g.fence AND d.action = 'DEAD')
                                            THEN 'Bury' ELSE 'Retry' END END)
  AND NOT EXISTS (SELECT 1 FROM log b WHERE b.delivery_id = g.delivery_id AND b.fence = g.fence AND b.action = 'ABANDONED')
  AND (g.action <> 'RELEASED' OR EXISTS (SELECT 1 FROM claims c WHERE c.id = g.delivery_id AND c.fence = g.fence))
  AND NOT EXISTS (SELECT 1 FROM dead_letters l WHERE l.delivery_id = g.delivery_id AND l.reason IN ('manual', 'skipped'));

-- name: taken_early
-- 6. A claim is abandoned only after its lease has ended; or after its process has, where the name of its worker tells that.
-- Where the database has a clock of its own, ``clock.skew`` says how far it may be from ours.
SELECT format('claim %d:%d of %s was taken %.3f s before its end', g.delivery_id, g.fence, c.worker, c.until - g.created)
FROM steps g CROSS JOIN leases c ON c.id = g.delivery_id AND c.fence = g.fence
LEFT JOIN gone o ON o.process = c.process AND c.worker GLOB '*:[0-9]*:*-*'
CROSS JOIN (SELECT coalesce(max(value), 0) AS skew FROM facts WHERE key = 'clock.skew') k
WHERE g.action = 'ABANDONED' AND g.created <= c.until - k.skew AND g.created <= coalesce(o.wall - k.skew, g.created);

-- name: taken_late
-- 6. A claim whose lease has ended is taken back within five seconds. Here fifteen are allowed, for all of a run shares one
-- machine; and nobody can while the database is away, or while a hole keeps a transaction from its end.
SELECT format('claim %d:%d of %s was taken %.1f s after its end', g.delivery_id, g.fence, c.worker, g.created - c.longest)
FROM steps g CROSS JOIN leases c ON c.id = g.delivery_id AND c.fence = g.fence
WHERE g.action = 'ABANDONED' AND g.created > c.longest + 15
  AND NOT EXISTS (SELECT 1 FROM faults f WHERE f.whom = 'database' AND f.began <= g.created AND f.over >= c.longest
                  AND f.name IN ('postgres-crash', 'postgres-hang', 'postgres-terminate', 'blackhole'));

-- name: begun_wrong
-- 7. A story begins with PUBLISHED, that of a message with its first claim, and each begins once.
SELECT format('event %d has no log', e.id) FROM events e WHERE NOT EXISTS (SELECT 1 FROM log g WHERE g.delivery_id = e.id)
UNION ALL
SELECT format('delivery %d begins with %s', s.delivery_id, s.action) FROM steps s
WHERE s.action_before IS NULL AND s.action <> 'PUBLISHED'
  AND (s.delivery_id = s.event_id OR s.action NOT IN ('PICKED', 'DEAD', 'CANCELLED'))
UNION ALL
SELECT format('delivery %d was published again after %s', delivery_id, action_before) FROM steps
WHERE action = 'PUBLISHED' AND action_before IS NOT NULL;

-- name: folded_wrong
-- 7. Where the log ends is where the delivery stands.
SELECT format('delivery %d: the log ends with %s (attempt %s, fence %s), the store has %s', s.delivery_id, s.action,
              s.attempt, s.fence, CASE WHEN d.id IS NULL THEN 'no delivery'
                                       ELSE format('state %d, attempt %d, fence %d', d.state, d.attempts, d.fence) END)
FROM steps s LEFT JOIN deliveries d ON d.id = s.delivery_id
WHERE s.is_last AND CASE s.action
    WHEN 'COMPLETED' THEN d.id IS NOT NULL
    WHEN 'CANCELLED' THEN d.id IS NOT NULL
    WHEN 'DEAD' THEN d.state <> 4
    WHEN 'PUBLISHED' THEN CASE WHEN d.id IS NOT NULL THEN d.state = 1
                               ELSE NOT EXISTS (SELECT 1 FROM messages m WHERE m.event_id = s.event_id)
                                    AND NOT EXISTS (SELECT 1 FROM markers f WHERE f.event_id = s.event_id) END
    ELSE d.id IS NULL OR (d.state = 1) <> (s.action = 'PICKED') OR d.fence <> s.fence OR d.attempts <> s.attempt END
UNION ALL
SELECT format('delivery %d (%s) has an open dead letter and the log ends with %s', l.delivery_id, l.reason, s.action)
FROM dead_letters l LEFT JOIN steps s ON s.delivery_id = l.delivery_id AND s.is_last
WHERE l.retried_at IS NULL AND (s.action IS NOT 'DEAD' OR s.attempt <> l.attempts OR s.fence <> l.fence);

-- name: no_letter
-- 8. Whatever died has an open dead letter.
SELECT format('delivery %d is dead and has no dead letter', s.delivery_id) FROM steps s
WHERE s.is_last AND s.action = 'DEAD'
  AND NOT EXISTS (SELECT 1 FROM dead_letters l WHERE l.delivery_id = s.delivery_id AND l.retried_at IS NULL);

-- name: incomplete_letter
-- 8. A letter has the reason, every error (a hundred at most), the event as it is, and who it was for.
SELECT format('the dead letter of delivery %d is incomplete: %s, %d errors of %d failures (%d in the log)%s%s', delivery_id,
              reason, error_count, failures, logged, iif(whole, '', ', not the event that is stored'),
              iif(subscriber IS NOT NULL AND consumer IS NULL, ', nobody it was for', ''))
FROM (SELECT l.*, e.hash IS NULL OR e.hash IS l.hash AS whole,
             (SELECT count(*) FROM log g WHERE g.delivery_id = l.delivery_id AND g.action IN ('FAILED', 'ABANDONED')
              AND g.id > coalesce((SELECT max(b.id) FROM log b WHERE b.delivery_id = l.delivery_id AND b.attempt = 0
                                   AND b.action = 'RETRIED'), 0)) AS logged
      FROM dead_letters l LEFT JOIN events e ON e.id = l.event_id WHERE l.retried_at IS NULL)
WHERE coalesce(reason, '') = '' OR (error_count = 0 AND reason NOT IN ('manual', 'skipped'))
   OR error_count < min(failures, 100) OR failures <> logged OR NOT whole OR (subscriber IS NOT NULL AND consumer IS NULL);

-- name: poison_lived
-- 8. What ends the process of whoever handles it is a dead letter in the end, because of that.
SELECT format('event %d (%s) ends its workers, and %s', a.id, a.token,
              coalesce('died as ' || (SELECT reason FROM dead_letters l WHERE l.delivery_id = a.id), 'is no dead letter'))
FROM acknowledged a
WHERE a.token LIKE 'poison-%'
  AND NOT EXISTS (SELECT 1 FROM dead_letters l WHERE l.delivery_id = a.id AND l.reason = 'worker_lost');

-- name: unequal
-- 9. Published = completed + dead + open, each counted where it stands: by the log, by the letters, by what is open.
WITH open AS MATERIALIZED (
  SELECT event_id FROM deliveries WHERE state <> 4 UNION SELECT event_id FROM markers),
dead AS MATERIALIZED (
  SELECT DISTINCT event_id FROM dead_letters WHERE retried_at IS NULL AND event_id NOT IN (SELECT event_id FROM open)),
done AS MATERIALIZED (
  SELECT event_id FROM steps WHERE is_last GROUP BY event_id
  HAVING sum(action IN ('COMPLETED', 'CANCELLED')) > 0
     AND sum(action NOT IN ('COMPLETED', 'CANCELLED') AND (action <> 'PUBLISHED' OR delivery_id <> event_id)) = 0),
numbers AS (
  SELECT (SELECT count(DISTINCT event_id) FROM log WHERE action = 'PUBLISHED') AS published,
         (SELECT count(*) FROM open) AS open, (SELECT count(*) FROM dead) AS dead,
         (SELECT count(*) FROM done WHERE event_id NOT IN (SELECT event_id FROM open)
          AND event_id NOT IN (SELECT event_id FROM dead)) AS completed)
SELECT format('%d were published, and %d are completed, %d dead and %d open', published, completed, dead, open)
FROM numbers WHERE published <> completed + dead + open;

-- name: miscounting
-- 9. The numbers that the hub tells are the numbers that there are.
WITH told AS (
  SELECT key, CAST(value AS INTEGER) AS told, CASE key
    WHEN 'stats.events' THEN (SELECT count(*) FROM main.events)
    WHEN 'stats.open' THEN (SELECT count(*) FROM (SELECT event_id FROM deliveries WHERE state <> 4
                                                  UNION SELECT event_id FROM markers))
    WHEN 'stats.dead' THEN (SELECT count(DISTINCT event_id) FROM main.dead_letters
                            WHERE retried_at IS NULL AND event_id NOT IN (SELECT event_id FROM deliveries WHERE state <> 4)
                              AND event_id NOT IN (SELECT event_id FROM markers))
    WHEN 'metric.eventhub_dlq_size' THEN (SELECT count(*) FROM main.dead_letters WHERE retried_at IS NULL)
    WHEN 'metric.eventhub_pending_messages' THEN (SELECT count(*) FROM deliveries WHERE subscriber IS NOT NULL AND state <> 4)
    END AS counted
  FROM facts)
SELECT format('%s says %d, and there are %d', key, told, counted) FROM told WHERE counted IS NOT NULL AND told <> counted;

-- name: lake_wrong
-- 10. The lake has each event once and unchanged, and each row of the log once.
SELECT format('the lake has event %d %d times', id, count) FROM lake_events WHERE count > 1
UNION ALL
SELECT format('the lake has event %d, which nobody published', l.id) FROM lake_events l
WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.id = l.id)
  AND NOT (EXISTS (SELECT 1 FROM facts WHERE key = 'archives') AND l.id IN (SELECT a.id FROM acknowledged a))
UNION ALL
SELECT format('the lake lacks event %d', e.id) FROM events e
WHERE EXISTS (SELECT 1 FROM facts WHERE key = 'lake') AND NOT EXISTS (SELECT 1 FROM lake_events l WHERE l.id = e.id)
UNION ALL
SELECT format('the lake has event %d with another payload', l.id) FROM lake_events l JOIN events e ON e.id = l.id
WHERE l.hash IS NOT e.hash
UNION ALL
SELECT format('the lake has row %d of the log %d times', id, count) FROM lake_log WHERE count > 1
UNION ALL
SELECT format('the lake has row %d of the log, which nobody wrote', id)
FROM (SELECT id FROM lake_log EXCEPT SELECT id FROM log)
WHERE NOT EXISTS (SELECT 1 FROM facts WHERE key = 'archives')
UNION ALL
SELECT format('the lake lacks row %d of the log', id) FROM (SELECT id FROM log EXCEPT SELECT id FROM lake_log)
WHERE EXISTS (SELECT 1 FROM facts WHERE key = 'lake');

-- name: not_drained
-- 11. After the healing everything comes to its end in bounded time.
SELECT format('the drain took %.1f s, %.1f s are allowed', s.value, coalesce(b.value, 60))
FROM facts s LEFT JOIN facts b ON b.key = 'drain.bound' WHERE s.key = 'drain.seconds' AND s.value > coalesce(b.value, 60)
UNION ALL
SELECT format('%d deliveries were not drained', count(*)) FROM deliveries WHERE state <> 4 HAVING count(*) > 0;

-- name: unexplained
-- 12. Good work that is done again has a reason: its claim was lost, given back, or ended otherwise by its own report. And
-- one claim is worked on once: for a message that is one request, whatever became of it.
SELECT format('%s handled %d:%d well, and the log says %s', h.process, h.id, h.fence, coalesce(g.action, 'nothing'))
FROM handled h
LEFT JOIN log g ON g.delivery_id = h.id AND g.fence = h.fence
  AND g.id = (SELECT max(o.id) FROM log o WHERE o.delivery_id = h.id AND o.fence = h.fence)
WHERE coalesce(g.action, '') NOT IN ('COMPLETED', 'ABANDONED', 'DEAD', 'RELEASED')
UNION ALL
SELECT format('claim %d:%d was worked on %d times', id, fence, count(*)) FROM handled GROUP BY id, fence HAVING count(*) > 1
UNION ALL
SELECT format('message %d arrived %d times and was claimed %d times', a.id, a.times, coalesce(l.claims, 0))
FROM (SELECT id, count(*) AS times FROM arrivals GROUP BY id) a LEFT JOIN lives l ON l.delivery_id = a.id
WHERE a.times > coalesce(l.claims, 0);

-- name: sent_again
-- 12. Who wants messages at most once gets one request, whatever became of it.
SELECT format('message %d arrived %d times, and subscriber %d wants it at most once', a.id, count(*), s.id)
FROM subscribers s CROSS JOIN messages m ON m.subscriber = s.id CROSS JOIN arrivals a ON a.id = m.id
WHERE s.guarantee = 'at_most_once' GROUP BY a.id HAVING count(*) > 1;

-- name: done_again
-- 12. Work that was done well is done again only where the claim under which it was done first was in danger.
SELECT format('delivery %d was done well by %s under claim %d, to which nothing had happened, and again', h.id, h.process,
              h.fence)
FROM handled h
CROSS JOIN (SELECT id, max(fence) AS last FROM handled GROUP BY id HAVING count(*) > 1) a ON a.id = h.id AND h.fence < a.last
WHERE NOT EXISTS (SELECT 1 FROM endangered e WHERE e.id = h.id AND e.fence = h.fence);

-- name: duplicated
-- 12. Each time that something was done well once more is explained by an attempt of that very delivery whose end nobody
-- knew.
SELECT format('delivery %d was done well %d times, and %d of its attempts ended unknown', id, made + 1, explained)
FROM duplicates WHERE made > explained;
