-- Indexes have no entries of what has gone here, whoever reads. So there is nothing to change.
SELECT 1;
