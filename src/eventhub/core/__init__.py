"""The rules of the hub, pure: no I/O, no clock, no randomness, no logging."""
