"""The work queue of remote workers: they take work by tag, report on it by id and name, and may repeat themselves."""

from eventhub.queue.work.values import Lease, Recorded, WorkerState, WorkReport
from eventhub.queue.work.work_queue import WorkQueue

__all__ = ["Lease", "Recorded", "WorkQueue", "WorkReport", "WorkerState"]
