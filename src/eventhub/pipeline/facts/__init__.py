"""Facts of the lake: pure functions from the log and the events to attempts and deliveries."""
