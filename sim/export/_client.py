"""The client of an arm, for whoever writes or sets the load generator: headers, and where every parameter is.

Keys stand in the traces, one for each arm, so scope, salt, explicit keys and blocking are settled before the run. What
shapes the load (caps, limits of tools, time limits) is the load generator's to keep.
"""

import json
from typing import Final

from policies._products import PRODUCTS
from sim.export._facts import Facts
from sim.export._program import Settings, flat
from sim.export.products import nemo_gym, slime

FILE: Final = "client.json"
_IN_KEYS: Final = ("key_scope", "keys", "blocking", "key_salt", "unkeyed_share")
_MEASURED: Final = ("processes", "tokens_per_s", "turn_s")
_SPELLED: Final = {"x-smg-routing-key": "X-SMG-Routing-Key", "x-session-id": "X-Session-ID"}


def client_file(facts: Facts) -> tuple[dict[str, str], list[str]]:
    """The file, and what of the client the product cannot do."""
    product = facts.chosen.product if facts.chosen else None
    settings = Settings(flat(dict(facts.client), "client"))
    draws_ids = product == nemo_gym.NAME
    header = None if draws_ids else _SPELLED.get(facts.header, facts.header)
    for name in settings.values:
        _place(settings, name, name.split(".")[1], product)
    settings.place("client.header", "none: the session is in a cookie" if draws_ids else header or "")
    if draws_ids:
        _of_gym(settings)
    by_request = facts.client["key_scope"] == "request"
    document = {
        "sends_to": _RECEIVER.get(product or "", "the router"),
        "headers": {header: "request-{rid}" if by_request else "{key}"} if header else {},
        "key": "of a row of the trace, `key` under the name of the arm; a row without one is sent without the header",
        "max_tokens": "`output_len` of the row, with ignore_eos: answers have the same length in every arm",
        "wait": "`arrive` of the row: a later turn waits for the answer before it, then its delay",
        "parameters": list(settings.table()),
        "impossible": settings.errors(),
    }
    return {FILE: json.dumps(document, indent=2) + "\n"}, settings.errors()


_RECEIVER: Final = {
    slime.NAME: "slime's generation: a sample's session_id is set to the key, and slime sends it",
    nemo_gym.NAME: "NeMo Gym's model server, which picks the engine",
}


def _place(settings: Settings, name: str, field: str, product: str | None) -> None:
    if field in _IN_KEYS:
        settings.place(name, "in the keys of the trace")
    elif field in _MEASURED:
        settings.place(name, "of the client program: measured, not set")
    elif field == "deadline_s":
        settings.place(name, "deadline_s of the trace's rows")
    elif product == slime.NAME and field.startswith("max_sessions"):
        settings.place(name, slime.ARGUMENTS)
    else:
        settings.place(name, "kept by the load generator" if settings.values[name] else "none")


def _of_gym(settings: Settings) -> None:
    """NeMo Gym draws the id of a session itself, so keys that somebody chose do not reach its rule."""
    why = f"NeMo Gym ({', '.join(PRODUCTS[nemo_gym.NAME].versions[-1:])} and before) draws session ids itself"
    for name, free in (("key_scope", ("session", "sample")), ("blocking", ("none",)), ("unkeyed_share", (0,))):
        if settings.values[f"client.{name}"] not in free:
            settings.refuse(f"client.{name}", why)
        else:
            settings.place(f"client.{name}", why)
    settings.place("client.key_salt", why)
    for name in ["client.keys", *settings.names("client.keys")]:
        if settings.values.get(name) is not None:
            settings.refuse(name, why)
