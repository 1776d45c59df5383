-- The tables and views are readable by SQLite 3.34 and newer. An application may keep its own tables in this file and read
-- them with the SQLite of its interpreter, which refuses the whole file when it cannot parse one definition.

-- An event as people see it, as before, without ORDER BY in an aggregate and concat_ws, which both came with 3.44.
DROP VIEW eventhub_event_states;
CREATE VIEW eventhub_event_states AS
SELECT e.id, e.type, e.payload, e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key,
       e.created_at, r.queue,
       rtrim(coalesce(d.state || ',', '')
             || coalesce((SELECT group_concat(DISTINCT m.state) FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                          WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state <> 4) || ',', '')
             || iif(f.event_id IS NULL, '', '0'), ',') AS states,
       rtrim(coalesce(l.status || ',', '')
             || coalesce((SELECT group_concat(DISTINCT x.status)
                          FROM eventhub_dead_letters x INDEXED BY eventhub_dead_letters_page
                          WHERE x.event_id = e.id AND x.retried_at IS NULL AND x.subscriber IS NOT NULL), ''), ',') AS dead,
       EXISTS (SELECT 1 FROM eventhub_event_log g WHERE g.event_id = e.id AND g.action = 'COMPLETED') AS completed,
       coalesce(d.attempts, l.attempts,
                (SELECT max(g.attempt) FROM eventhub_event_log g
                 WHERE g.event_id = e.id AND g.delivery_id = e.id AND g.action = 'COMPLETED'),
                (SELECT max(c.attempts)
                 FROM (SELECT m.attempts FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                       WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state <> 4
                       UNION ALL SELECT x.attempts FROM eventhub_dead_letters x INDEXED BY eventhub_dead_letters_page
                       WHERE x.event_id = e.id AND x.retried_at IS NULL
                       UNION ALL SELECT g.attempt FROM eventhub_event_log g
                       WHERE g.event_id = e.id AND g.action IN ('COMPLETED', 'CANCELLED')) c), 0) AS attempts,
       coalesce(d.failures, l.failures,
                CASE WHEN EXISTS (SELECT 1 FROM eventhub_event_log g
                                  WHERE g.event_id = e.id AND g.delivery_id = e.id AND g.action = 'COMPLETED')
                     THEN (SELECT count(*) FROM eventhub_event_log g
                           WHERE g.event_id = e.id AND g.delivery_id = e.id AND g.action IN ('FAILED', 'ABANDONED')
                             AND g.id > coalesce((SELECT max(n.id) FROM eventhub_event_log n
                                                  WHERE n.event_id = e.id AND n.delivery_id = e.id
                                                    AND n.action = 'RETRIED'), 0))
                     ELSE (SELECT max(c.failures)
                           FROM (SELECT m.failures FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                                 WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state <> 4
                                 UNION ALL SELECT x.failures FROM eventhub_dead_letters x INDEXED BY eventhub_dead_letters_page
                                 WHERE x.event_id = e.id AND x.retried_at IS NULL
                                 UNION ALL
                                 SELECT count(*) FILTER (WHERE a.id > a.since)
                                 FROM (SELECT g.id, g.delivery_id, g.action,
                                              coalesce(max(g.id) FILTER (WHERE g.action = 'RETRIED')
                                                       OVER (PARTITION BY g.delivery_id), 0) AS since
                                       FROM eventhub_event_log g WHERE g.event_id = e.id) a
                                 WHERE a.action IN ('FAILED', 'ABANDONED') GROUP BY a.delivery_id) c) END, 0) AS failures,
       d.fence,
       coalesce(CASE WHEN d.state = 1 THEN d.due END,
                (SELECT min(m.due) FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                 WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state = 1)) AS lease_ends,
       coalesce(CASE WHEN d.state = 3 THEN d.due END,
                (SELECT min(m.due) FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                 WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state = 3), f.due) AS next_retry,
       CASE WHEN d.id IS NOT NULL OR l.id IS NOT NULL THEN coalesce(d.errors, l.errors)
            ELSE coalesce((SELECT json_group_array(t.error) OVER (
                            ORDER BY t.id, t.place ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
                  FROM (SELECT o.id, v.value AS error, v.key AS place
                        FROM (SELECT m.id, m.errors FROM eventhub_deliveries m INDEXED BY eventhub_deliveries_event
                              WHERE m.event_id = e.id AND m.subscriber IS NOT NULL AND m.state <> 4
                              UNION ALL SELECT x.delivery_id, x.errors FROM eventhub_dead_letters x INDEXED BY eventhub_dead_letters_page
                              WHERE x.event_id = e.id AND x.retried_at IS NULL) o
                        CROSS JOIN json_each(o.errors) v ORDER BY o.id DESC, v.key DESC LIMIT 100) t LIMIT 1), '[]') END AS errors,
       coalesce((SELECT max(g.created_at) FROM eventhub_event_log g WHERE g.event_id = e.id), e.created_at) AS updated_at
FROM eventhub_events e
JOIN eventhub_routes r ON r.id = e.route
LEFT JOIN eventhub_deliveries d ON d.id = e.id AND d.state <> 4
LEFT JOIN eventhub_dead_letters l ON l.delivery_id = e.id AND l.retried_at IS NULL
LEFT JOIN eventhub_fanout f ON f.event_id = e.id;

-- STRICT came with 3.37. It is a check of what is written and changes nothing about how rows are stored, so only the text of
-- the definitions is changed, and no table is copied. What reads the definitions anew is the view above.
PRAGMA writable_schema = ON;
UPDATE sqlite_master SET sql = replace(replace(sql, ') STRICT, WITHOUT ROWID', ') WITHOUT ROWID'), ') STRICT', ')')
WHERE type = 'table' AND name LIKE 'eventhub\_%' ESCAPE '\';
PRAGMA writable_schema = RESET;
