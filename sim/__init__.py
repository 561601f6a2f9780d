"""windtunnel: a discrete-event simulator of request routing over fleets of LLM engines.

from sim import load_scenario, run
result = run(load_scenario("slime_group_affinity"), pairs=20)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.scenario import load_scenario
    from sim.sweep import run

__all__ = ["__version__", "load_scenario", "run"]


def __getattr__(name: str) -> Any:
    """What the package exports, imported when it is asked for: ``import sim`` alone stays quick."""
    if name == "load_scenario":
        from sim.scenario import load_scenario

        return load_scenario
    if name == "run":
        from sim.sweep import run

        return run
    if name == "__version__":
        from importlib import metadata

        return metadata.version("windtunnel")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
