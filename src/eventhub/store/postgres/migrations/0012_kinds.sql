-- Lists by tags go by the types that a route has, each from its newest event on, as those by type always did. So there is
-- one index to be written for each event where there were two. NULLS FIRST, of which there are none, is an order that only
-- this index has: a list that asks for it is never looked for by the primary key among the events of all kinds.
DROP INDEX eventhub.events_route;
DROP INDEX eventhub.events_type;
CREATE INDEX events_kind ON eventhub.events (route, type, id NULLS FIRST);
