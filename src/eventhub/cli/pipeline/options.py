"""Options that the commands of the pipeline share: where the lake is, and which Spark does the work.

Annotations are real ones here, as in the options of all commands.
"""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from eventhub.cli.options import Common, flag
from eventhub.config import Loaded
from eventhub.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LakeOptions", "SparkOptions", "needs_spark"]

SPARK = Group("Spark", sort_key=90)
ONLY_OWNER = 0o077


def needs_spark() -> None:
    """Say what is missing where the extra was not installed."""
    if any(find_spec(name) is None for name in ("pyspark", "pyarrow", "deltalake")):
        raise SettingsError("The pipeline needs more packages: pip install 'eventhub[spark]'.")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LakeOptions(Common):
    """Options of commands that use the lake."""

    lake: Annotated[str | None, flag("lake")] = None

    def load(self) -> Loaded:
        """The settings; from here on this process and its Spark write for their own user alone, as the database is."""
        os.umask(ONLY_OWNER)
        return super().load()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SparkOptions(LakeOptions):
    """Options of commands that use Spark."""

    master: Annotated[
        str | None,
        Parameter(help="Where Spark runs: local[4], spark://host:7077, …; by default here.", group=SPARK),
    ] = None
    conf: Annotated[
        tuple[str, ...],
        Parameter(
            help="A setting of Spark, as name=value; again for more.",
            group=SPARK,
            negative_iterable=(),
            show_default=False,
        ),
    ] = ()

    def session(self) -> "SparkSession":
        """The Spark that was asked for."""
        needs_spark()
        from eventhub.pipeline import session

        given = [setting.partition("=") for setting in self.conf]
        wrong = [name for name, equals, _ in given if not (name and equals)]
        if wrong:
            raise SettingsError(f"--conf is {wrong[0]!r}; give a name and a value: spark.executor.memory=2g.")
        return session(master=self.master, conf={name: value for name, _, value in given})
