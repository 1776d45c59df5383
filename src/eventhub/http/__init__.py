"""The hub over HTTP: a work queue for workers in any language, publishing, and what operators need.

uvicorn ─▶ protocol (header and time limits) ─▶ app, routing (one endpoint a path)
                                                 └▶ gate: host, origin, key, scope, rate
                                                 └▶ reading: size, type, strict JSON, schema
                                                 └▶ a handler in routes/ ─▶ queue.WorkQueue, hub.SubscriberBook, store
"""
