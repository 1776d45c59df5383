-- Lists by tags go by the types that a route has, each from its newest event on, as those by type always did. So there is
-- one index to be written for each event where there were two. It ends in the row's id by itself.
DROP INDEX eventhub_events_route;
DROP INDEX eventhub_events_type;
CREATE INDEX eventhub_events_kind ON eventhub_events (route, type);
