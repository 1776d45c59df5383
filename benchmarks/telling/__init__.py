"""Results as tables of the documentation."""
