"""Clients: who sends the turns of a workload to a router, and writes down how they fare.

``_client`` knows groups, a cap on sessions, turns and keys; ``_sessions`` and ``_managed`` have everything else that a
scenario may ask of a client, with parts of their own: tools with few places (``_pool``), processes that prepare prompts
(``_stage``), sessions that fork (``_forks``), groups that travel as one request (``_bundle``). A scenario that asks for
none of it gets the former.
"""

from sim.client._bundle import Front
from sim.client._client import Client, Sending
from sim.client._managed import ManagedClient

__all__ = ["Client", "Front", "ManagedClient", "Sending"]
