"""A Ray cluster as the place where replications run.

Each task is a Ray task of one core; its logs come back through Ray's object store and are stored by this process, so
the nodes need no folder in common. They need this package, and every file that the scenario reads at the same path.
"""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sim.errors import ScenarioError
from sim.sweep._pools import DIED, MOST_DEATHS, Task
from sim.worker import Done, simulate

POLL_S: Final = 0.5
"""How long one wait may take, so that Ctrl-C is heard."""


@dataclass(slots=True)
class Ray:
    """Tasks on a Ray cluster; use it within ``ray_pool``."""

    ray: Any
    workers: int
    _remote: Any = None
    _tasks: dict[Any, Task] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """One task for each core to run, one to go on with."""
        return 2 * self.workers

    def submit(self, task: Task) -> None:
        """Take a task."""
        if self._remote is None:
            self._remote = self.ray.remote(num_cpus=1, max_retries=MOST_DEATHS - 1)(simulate)
        self._tasks[self._remote.remote(task.cell, task.pairs)] = task

    def next(self) -> tuple[Task, Done]:
        """Wait for one of the tasks to be done."""
        ready: list[Any] = []
        while not ready:
            ready, _ = self.ray.wait(list(self._tasks), num_returns=1, timeout=POLL_S)
        task = self._tasks.pop(ready[0])
        try:
            return task, self.ray.get(ready[0])
        except self.ray.exceptions.WorkerCrashedError:
            return task, Done({}, dict.fromkeys(task.pairs, DIED), 0.0)
        except self.ray.exceptions.RayError as error:
            text = str(error).strip().splitlines()[-1]
            return task, Done({}, dict.fromkeys(task.pairs, f"Ray: {text}"), 0.0)


@contextmanager
def ray_pool(address: str | None, workers: int | None) -> Iterator[Ray]:
    """A pool on the cluster at ``address``, or on a Ray of this machine that ends with the block."""
    if importlib.util.find_spec("ray") is None:
        raise ScenarioError("--executor ray needs Ray: install windtunnel[ray]")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    import ray

    root = str(Path(__file__).parents[2])
    options: dict[str, Any] = {} if address else {"num_cpus": workers, "include_dashboard": False}
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="ERROR",
            runtime_env={"env_vars": {"PYTHONPATH": root}},
            **options,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise ScenarioError(f"cannot reach a Ray cluster at {address}: {str(error).splitlines()[0]}") from None
    try:
        cores = int(ray.cluster_resources().get("CPU", 1))
        yield Ray(ray, min(cores, workers or cores))
    finally:
        ray.shutdown()
