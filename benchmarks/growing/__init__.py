"""Growth: what an event costs when there is more of everything – the visits, the walk over sizes, what is written."""
