"""Where work is done that comes in many independent tasks: here, or on a cluster."""

from tpulite.executors.cluster import ClusterExecutor
from tpulite.executors.executor import Done, Executor
from tpulite.executors.local import LocalExecutor

__all__ = ["ClusterExecutor", "Done", "Executor", "LocalExecutor"]
