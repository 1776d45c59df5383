"""Marts of the lake: pure functions from facts to small tables that answer the usual questions."""
