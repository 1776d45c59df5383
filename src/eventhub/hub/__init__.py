"""What a hub does by itself, beside serving: for now, keeping house."""

from eventhub.hub.janitor import Janitor

__all__ = ["Janitor"]
