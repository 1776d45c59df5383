-- In SQLite the definitions become readable by older versions of its library; here there is nothing to change.
SELECT 1;
