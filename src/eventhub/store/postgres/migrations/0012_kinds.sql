-- Lists by tags go by the types that a route has, each from its newest event on, as those by type always did. So there is
-- one index to be written for each event where there were two.
DROP INDEX eventhub.events_route;
DROP INDEX eventhub.events_type;
CREATE INDEX events_kind ON eventhub.events (route, type, id);
