"""Deterministic simulation: virtual processes on a virtual clock, over the store in memory and the real rules."""
