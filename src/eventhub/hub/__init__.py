"""What a hub does by itself, beside serving: it hands broadcast events out, sends webhooks and keeps house."""

from eventhub.hub.crew import Crew, CrewSettings
from eventhub.hub.hub import Hub

__all__ = ["Crew", "CrewSettings", "Hub"]
