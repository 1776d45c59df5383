"""The HTTP benchmark: a real server in one process, the load in another, and beside it what a user would write instead.

bench ──starts──▶ server (eventhub serve, or the FastAPI app) ──▶ database
  │                  ▲
  └──────starts──▶ load: keep-alive connections, prebuilt requests, one request on its way on each
"""
