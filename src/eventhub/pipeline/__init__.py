"""The data pipeline on Spark. In plain PySpark two lines are enough::

    from eventhub.pipeline import register
    register(spark)

and ``spark.read.format("eventhub").option("url", …).option("table", "events").load()`` works; so do ``readStream``,
``write`` and ``writeStream``. ``session()`` starts a Spark that is set up well, with nothing but pip.
"""

from __future__ import annotations

try:
    import pyspark as _  # noqa: F401 - whether it is there at all
except ImportError as error:
    raise ImportError("The pipeline needs Spark: pip install 'eventhub[spark]'.") from error

from eventhub.pipeline.source import EventHubSource, register
from eventhub.pipeline.spark import session

__all__ = ["EventHubSource", "register", "session"]
