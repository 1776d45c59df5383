"""Event Hub: one durable event system, from a single file to a lakehouse."""
