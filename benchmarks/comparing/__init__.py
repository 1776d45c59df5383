"""The comparison: systems and workloads, the rounds over them, and what is written about it."""
