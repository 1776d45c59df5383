"""The lake as files: tables that any reader of Delta understands, written and read without Spark."""
