-- name: about
-- The server's version, the tables' version, and whose transaction numbers these are. Asked first, so that what is too old is named.
SELECT current_setting('server_version_num')::int AS server, to_regclass('eventhub.meta') IS NOT NULL AS has_tables;

-- name: schema_version
SELECT value::int FROM eventhub.meta WHERE key = 'schema_version';

-- name: origin
SELECT 'postgres:' || system_identifier::text FROM pg_control_system();

-- name: snapshot
-- What is committed now, in a form that other connections can apply: below the last number, without those still open.
SELECT pg_snapshot_xmax(s)::text::bigint, (SELECT string_agg(x::text, ',') FROM pg_snapshot_xip(s) x)
FROM pg_current_snapshot() s;

-- name: horizon
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- name: restored_events
-- Rows whose numbers lie in the future came from another cluster; the index on xid answers at once when there are none.
SELECT EXISTS (SELECT 1 FROM eventhub.events WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint);

-- name: restored_event_log
SELECT EXISTS (SELECT 1 FROM eventhub.event_log WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint);

-- name: restored_audit
SELECT EXISTS (SELECT 1 FROM eventhub.audit WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint);

-- name: fitting_events
-- Of a stretch of numbers: how many rows there are, and the first transaction that is too much when so many were found
-- before; never the very first one.
SELECT coalesce(sum(n), 0)::bigint, min(xid) FILTER (WHERE {found} + sofar > greatest({rows}, n))
FROM (SELECT xid, count(*) AS n, sum(count(*)) OVER (ORDER BY xid) AS sofar FROM eventhub.events
      WHERE xid >= {first} AND xid < {last} GROUP BY xid) each_one;

-- name: fitting_event_log
SELECT coalesce(sum(n), 0)::bigint, min(xid) FILTER (WHERE {found} + sofar > greatest({rows}, n))
FROM (SELECT xid, count(*) AS n, sum(count(*)) OVER (ORDER BY xid) AS sofar FROM eventhub.event_log
      WHERE xid >= {first} AND xid < {last} GROUP BY xid) each_one;

-- name: fitting_audit
SELECT coalesce(sum(n), 0)::bigint, min(xid) FILTER (WHERE {found} + sofar > greatest({rows}, n))
FROM (SELECT xid, count(*) AS n, sum(count(*)) OVER (ORDER BY xid) AS sofar FROM eventhub.audit
      WHERE xid >= {first} AND xid < {last} GROUP BY xid) each_one;

-- name: blocks_events
-- The relations that hold rows, with their sizes in blocks.
SELECT 'eventhub.events', pg_relation_size('eventhub.events') / current_setting('block_size')::bigint;

-- name: blocks_event_log
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname),
       pg_relation_size(c.oid) / current_setting('block_size')::bigint
FROM pg_partition_tree('eventhub.event_log') p
JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.isleaf ORDER BY 1;

-- name: blocks_audit
SELECT 'eventhub.audit', pg_relation_size('eventhub.audit') / current_setting('block_size')::bigint;

-- name: count_events
-- Not more than what is asked for, so that many rows cost no more than few.
SELECT count(*) FROM (SELECT FROM eventhub.events WHERE xid >= {first} AND xid < {last} LIMIT {most}) few;

-- name: count_event_log
SELECT count(*) FROM (SELECT FROM eventhub.event_log WHERE xid >= {first} AND xid < {last} LIMIT {most}) few;

-- name: count_audit
SELECT count(*) FROM (SELECT FROM eventhub.audit WHERE xid >= {first} AND xid < {last} LIMIT {most}) few;

-- name: file_nodes
-- The files that hold the relations: one that was written anew has its rows in other places.
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) || '=' || pg_relation_filenode(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'eventhub' AND c.relkind = 'r' ORDER BY 1;
