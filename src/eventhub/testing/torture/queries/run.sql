-- name: idle
-- 13. Something was published, done and received, by everybody whom the fact ``parts`` names; in a run of a minute or more
-- something was copied to the lake before the healing. Where no parts are named, whoever left a trace took part.
WITH parts AS (SELECT coalesce((SELECT value FROM facts WHERE key = 'parts'), '') AS names),
long AS (SELECT EXISTS (SELECT 1 FROM facts WHERE key = 'seconds' AND value >= 60) AS is_so)
SELECT 'nothing was acknowledged' WHERE NOT EXISTS (SELECT 1 FROM acknowledged)
UNION ALL SELECT 'nothing was handled' FROM parts
WHERE (names LIKE '%work%' OR (names = '' AND NOT EXISTS (SELECT 1 FROM messages))) AND NOT EXISTS (SELECT 1 FROM handled)
UNION ALL SELECT 'nothing was received' FROM parts
WHERE (names LIKE '%messages%' OR (names = '' AND EXISTS (SELECT 1 FROM subscribers)))
  AND NOT EXISTS (SELECT 1 FROM arrivals)
UNION ALL SELECT 'nothing was copied to the lake before the healing' FROM parts CROSS JOIN long
WHERE names LIKE '%lake%' AND long.is_so
  AND NOT EXISTS (SELECT 1 FROM records WHERE op = 'copy' AND kind = 'ok' AND size > 0
                  AND time < coalesce((SELECT min(time) FROM records WHERE op = 'heal'), 9e18))
UNION ALL SELECT format('nobody told %s', m.value) FROM parts
CROSS JOIN json_each('["metric.eventhub_dlq_size", "metric.eventhub_pending_messages"]') m
WHERE names <> '' AND NOT EXISTS (SELECT 1 FROM facts WHERE key = m.value);

-- name: unharmed
-- 13. In a run of a minute or more every fault that was asked for has hit something.
SELECT format('%s never hit anything', f.value)
FROM facts a CROSS JOIN json_each('["' || replace(a.value, ',', '","') || '"]') f
WHERE a.key = 'faults' AND f.value <> '' AND EXISTS (SELECT 1 FROM facts WHERE key = 'seconds' AND value >= 60)
  AND NOT EXISTS (SELECT 1 FROM faults h WHERE h.name = f.value AND h.hits > 0)
  AND NOT (f.value = 'evil-receiver' AND EXISTS (SELECT 1 FROM arrivals WHERE outcome NOT LIKE '2%'));

-- name: died_alone
-- 14. Nobody ends by himself, but who was handling poison.
SELECT format('%s ended by itself', r.worker) FROM records r
WHERE r.op = 'died' AND r.kind = 'ok'
  AND r.worker NOT IN (SELECT process FROM records WHERE op = 'handle' AND kind = 'invoke' AND token LIKE 'poison-%'
                       AND (process, call) NOT IN (SELECT process, call FROM records
                                                   WHERE op = 'handle' AND kind = 'ok' AND token LIKE 'poison-%'));

-- name: stuck
-- 14. Whoever is asked to end does so.
SELECT format('%s did not end: %s', worker, error) FROM records WHERE op = 'stuck' AND kind = 'ok';

-- name: wrote_errors
-- 14. Nobody has an error that he does not know what to do with.
SELECT format('processes wrote errors, the last of them: %s', value) FROM facts WHERE key = 'errors' AND value <> '';

-- name: broken_off
-- 14. The run came to its end.
SELECT format('the run is incomplete: %s', value) FROM facts WHERE key = 'incomplete';

-- name: figures
-- The run in numbers.
SELECT 'records', count(*) FROM records
UNION ALL SELECT 'events', count(*) FROM events
UNION ALL SELECT 'acknowledged', count(DISTINCT token) FROM acknowledged
UNION ALL SELECT 'completed', count(*) FROM steps WHERE is_last AND action = 'COMPLETED'
UNION ALL SELECT 'messages', count(*) FROM messages
UNION ALL SELECT * FROM (SELECT 'dead: ' || reason, count(*) FROM dead_letters WHERE retried_at IS NULL GROUP BY reason ORDER BY reason)
UNION ALL SELECT 'kills', count(*) FROM records WHERE op = 'kill' AND kind = 'ok'
UNION ALL SELECT 'stops', count(*) FROM records WHERE op = 'stop' AND kind = 'ok'
UNION ALL SELECT 'other faults', coalesce(sum(hits), 0) FROM faults
          WHERE name NOT GLOB 'kill-*' AND name NOT GLOB 'stop-*'
UNION ALL SELECT * FROM (SELECT 'fault: ' || name, sum(hits) FROM faults GROUP BY name ORDER BY name)
UNION ALL SELECT 'fault: evil-receiver', count(*) FROM arrivals WHERE outcome NOT LIKE '2%'
UNION ALL SELECT 'claims', count(*) FROM steps WHERE action = 'PICKED'
UNION ALL SELECT 'abandoned', count(*) FROM steps WHERE action = 'ABANDONED'
UNION ALL SELECT 'released', count(*) FROM steps WHERE action = 'RELEASED'
UNION ALL SELECT 'late reports refused', count(*) FROM records WHERE op = 'report' AND kind = 'ok' AND NOT accepted
UNION ALL SELECT 'arrivals', count(*) FROM arrivals
UNION ALL SELECT 'duplicates', coalesce(sum(made), 0) FROM duplicates
UNION ALL SELECT 'duplicates explained', coalesce(sum(min(made, explained)), 0) FROM duplicates
UNION ALL SELECT 'ordering keys', count(*) FROM (SELECT DISTINCT consumer, key FROM lanes)
UNION ALL SELECT 'events in the lake', count(*) FROM lake_events
UNION ALL SELECT 'log rows in the lake', count(*) FROM lake_log;
