"""The webhook benchmark: events are published here, handed out and sent by one process, and received by another.

bench ──publishes──▶ database ◀──claims, settles── dispatcher (eventhub serve --roles fanout,dispatcher,janitor)
  │                                                    │ signed webhooks
  └──────────────── asks what came ──▶ receiver ◀──────┘

Beside it stands the same client without a hub: requests that were made beforehand, sent to the same receiver.
"""
