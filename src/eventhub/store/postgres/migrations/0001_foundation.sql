-- The ground: events, deliveries, the log and the dead letters, in a schema of their own.

CREATE TABLE eventhub.meta (
  key   text PRIMARY KEY,
  value text NOT NULL
);

-- One sequence for events and deliveries: a work delivery has its event's id, and no id is ever used again.
CREATE SEQUENCE eventhub.ids;

-- Where work waits, interned: claims go by this number, never by comparing tags.
CREATE TABLE eventhub.routes (
  id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue    text NOT NULL,
  tags     text NOT NULL,
  priority integer NOT NULL,
  UNIQUE (queue, tags, priority)
);

-- Ordering keys that have open deliveries; locking a row serialises all who work on that key.
CREATE TABLE eventhub.lanes (
  id       bigint PRIMARY KEY,
  consumer text NOT NULL,
  key      text NOT NULL
) WITH (fillfactor = 50);

-- Immutable facts: inserted once, never updated. ``json`` keeps the text as it is. ``xid`` lets readers stop below
-- whatever may still commit.
CREATE TABLE eventhub.events (
  id              bigint PRIMARY KEY,
  route           integer NOT NULL,
  type            text NOT NULL,
  payload         json NOT NULL,
  metadata        text,
  tags            text,
  title           text,
  description     text,
  ordering_key    text,
  idempotency_key text,
  created_at      timestamptz NOT NULL,
  xid             bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)
);

-- The work that is still to be done; a settled delivery is deleted. States are those of core/lifecycle.py.
-- ``parks`` says whether it holds its ordering key when it dies.
-- Narrow and hot, so it is vacuumed early and at full speed.
CREATE TABLE eventhub.deliveries (
  id           bigint PRIMARY KEY,
  event_id     bigint NOT NULL,
  subscriber   bigint,
  lane         bigint,
  route        integer NOT NULL,
  state        smallint NOT NULL,
  due          timestamptz,
  fence        integer NOT NULL,
  attempts     integer NOT NULL,
  failures     integer NOT NULL,
  max_attempts integer,
  worker       text,
  parks        boolean NOT NULL DEFAULT false,
  errors       jsonb
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
-- The claim index is on event_id, not id, so that the planner never takes the primary key for it.
CREATE INDEX deliveries_ready ON eventhub.deliveries (route, event_id) WHERE state = 0;
CREATE INDEX deliveries_leased ON eventhub.deliveries (due) WHERE state = 1;
CREATE INDEX deliveries_behind ON eventhub.deliveries (lane, id) WHERE state = 2;
CREATE INDEX deliveries_waiting ON eventhub.deliveries (due) WHERE state = 3;
CREATE UNIQUE INDEX deliveries_head ON eventhub.deliveries (lane) WHERE lane IS NOT NULL AND state <> 2;

-- What happened, append-only, a partition a day so that old days can be dropped whole.
CREATE TABLE eventhub.event_log (
  id           bigint GENERATED ALWAYS AS IDENTITY,
  event_id     bigint NOT NULL,
  delivery_id  bigint,
  action       text NOT NULL,
  worker       text,
  attempt      integer,
  fence        integer,
  status_code  integer,
  error        text,
  execution_ms integer,
  created_at   timestamptz NOT NULL,
  xid          bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)
) PARTITION BY RANGE (created_at);
CREATE INDEX event_log_event ON eventhub.event_log (event_id);
CREATE TABLE eventhub.event_log_other PARTITION OF eventhub.event_log DEFAULT;

-- Days that have no partition yet get one; a day whose rows are in the default partition already stays there.
CREATE FUNCTION eventhub.make_log_days(first date, days integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  day date;
  name text;
  made integer := 0;
BEGIN
  -- Whoever comes second waits: to write before the days are there would mean to write into the default partition, and
  -- a row on its way there fails when its day is attached.
  PERFORM pg_advisory_xact_lock(hashtext('eventhub.log_days'));
  FOR offset_days IN 0 .. days - 1 LOOP
    day := first + offset_days;
    name := 'event_log_' || to_char(day, 'YYYYMMDD');
    -- Not to_regclass: it may not see what another session has made meanwhile.
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_tables t WHERE t.schemaname = 'eventhub' AND t.tablename = name) THEN
      BEGIN
        EXECUTE format('CREATE TABLE eventhub.%I (LIKE eventhub.event_log INCLUDING DEFAULTS)', name);
        EXECUTE format('ALTER TABLE eventhub.event_log ATTACH PARTITION eventhub.%I FOR VALUES FROM (%L) TO (%L)',
                       name, day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
        made := made + 1;
      EXCEPTION WHEN check_violation THEN
        NULL;
      END;
    END IF;
  END LOOP;
  RETURN made;
END $$;

-- The first days come with the table, so that nobody ever sees it without them.
SELECT eventhub.make_log_days((now() AT TIME ZONE 'UTC')::date, 8);

-- Deliveries that were given up, each with its event as it was. ``retried_at`` closes one.
CREATE TABLE eventhub.dead_letters (
  id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  delivery_id     bigint NOT NULL,
  event_id        bigint NOT NULL,
  subscriber      bigint,
  consumer        json,
  lane            bigint,
  route           integer NOT NULL,
  fence           integer NOT NULL,
  attempts        integer NOT NULL,
  failures        integer NOT NULL,
  max_attempts    integer,
  worker          text,
  parks           boolean NOT NULL,
  errors          jsonb,
  reason          text NOT NULL,
  status          text NOT NULL,
  dead_at         timestamptz NOT NULL,
  retried_at      timestamptz,
  retried_by      text,
  type            text NOT NULL,
  payload         json NOT NULL,
  metadata        text,
  tags            text,
  title           text,
  description     text,
  ordering_key    text,
  idempotency_key text,
  created_at      timestamptz NOT NULL
);
CREATE UNIQUE INDEX dead_letters_open ON eventhub.dead_letters (delivery_id) WHERE retried_at IS NULL;
CREATE INDEX dead_letters_page ON eventhub.dead_letters (event_id DESC, id DESC) WHERE retried_at IS NULL;
CREATE INDEX dead_letters_event ON eventhub.dead_letters (event_id);

CREATE TABLE eventhub.handler_results (
  event_id   bigint NOT NULL,
  handler    text NOT NULL,
  kind       text NOT NULL,
  message    text,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (event_id, handler)
);

CREATE TABLE eventhub.guards (
  event_id   bigint NOT NULL,
  step       text NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (event_id, step)
);

-- Keys that publishers use to say "this is the same event again"; each queue has its own.
CREATE TABLE eventhub.idempotency_keys (
  scope      text NOT NULL,
  key        text NOT NULL,
  event_id   bigint NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (scope, key)
);

-- An event as people see it: its facts, and where its work stands.
CREATE VIEW eventhub.event_states AS
SELECT e.id, e.type, e.payload, e.metadata, e.tags, e.title, e.description, e.ordering_key, e.idempotency_key,
       e.created_at, r.queue, d.state, l.status AS dead_status,
       coalesce(d.attempts, l.attempts,
                (SELECT g.attempt FROM eventhub.event_log g WHERE g.event_id = e.id AND g.action = 'COMPLETED'
                 ORDER BY g.id DESC LIMIT 1), 0) AS attempts,
       coalesce(d.failures, l.failures,
                (SELECT count(*) FROM eventhub.event_log g WHERE g.event_id = e.id AND g.action IN ('FAILED', 'ABANDONED')
                 AND g.id > coalesce((SELECT max(r.id) FROM eventhub.event_log r
                                      WHERE r.event_id = e.id AND r.action = 'RETRIED'), 0))) AS failures,
       d.fence, CASE WHEN d.state = 1 THEN d.due END AS lease_ends, CASE WHEN d.state = 3 THEN d.due END AS next_retry,
       coalesce(d.errors, l.errors) AS errors,
       coalesce((SELECT max(g.created_at) FROM eventhub.event_log g WHERE g.event_id = e.id), e.created_at) AS updated_at
FROM eventhub.events e
JOIN eventhub.routes r ON r.id = e.route
LEFT JOIN eventhub.deliveries d ON d.id = e.id AND d.state <> 4
LEFT JOIN eventhub.dead_letters l ON l.delivery_id = e.id AND l.retried_at IS NULL;
