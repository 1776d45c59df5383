"""The dashboard: the files of ``static``, which browsers fetch and which use the JSON API as everybody else does."""
