"""The guard: how near Event Hub comes to the bare driver, recorded once and held against every change."""
