-- Keys of queues that stand still: heads that have failed or are parked, as deliveries_blocked has them of subscribers.
-- Work that gets through at once is never in it, so that it costs nothing to those who publish and claim.
CREATE INDEX deliveries_blocked_work ON eventhub.deliveries (lane)
  WHERE subscriber IS NULL AND lane IS NOT NULL AND state <> 2 AND (failures > 0 OR state = 4);
