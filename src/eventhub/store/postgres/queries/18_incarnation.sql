-- name: identify
-- Asked of every new connection. The timeline is that of the log being written: what the control file says comes from the
-- last checkpoint, and is the old one for a while after a promotion. A dump that is restored makes another database, or
-- another table; a copy of the files does not.
SELECT pg_is_in_recovery(), s.system_identifier || '/'
       || CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END
       || '/' || (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
       || '/' || 'eventhub.meta'::regclass::oid,
       (SELECT value FROM eventhub.meta WHERE key = 'place'),
       (SELECT value::integer FROM eventhub.meta WHERE key = 'incarnation'),
       (SELECT value::bigint FROM eventhub.meta WHERE key = 'incarnation_began')
FROM pg_control_system() s;

-- name: begin_incarnation
SELECT eventhub.begin_incarnation($1, $2);

-- name: hold_connections
-- Whoever connects waits here until it is told which incarnation this is.
LOCK TABLE eventhub.meta IN ACCESS EXCLUSIVE MODE;

-- name: end_sessions
-- Those of other processes on the same database: what they remember is that of another incarnation, and they find out when
-- they connect anew, so it is waited for their end. Sessions of other users are left alone.
SELECT count(*) FILTER (WHERE CASE WHEN a.usename = current_user THEN pg_terminate_backend(a.pid, 10000) END),
       count(*) FILTER (WHERE a.usename <> current_user)
FROM pg_catalog.pg_stat_activity a
WHERE a.datname = current_database() AND a.application_name = 'eventhub' AND a.pid <> pg_backend_pid();
