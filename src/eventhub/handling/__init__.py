"""What the faces share to run handlers: threads for plain ones, error texts, patience with a database that is away."""
