"""Reads a whole trace, once for all replications of a process."""

from functools import lru_cache
from pathlib import Path

from sim.errors import ScenarioError
from sim.workload._rows import Trace
from sim.workload._traces._call import Reading
from sim.workload._traces._formats import FORMATS, files_of, read_calls
from sim.workload._traces._recording import Recording
from sim.workload._traces.paired import PAIRED, read_whole


@lru_cache(maxsize=4)
def load(
    path: Path,
    _versions: tuple[Trace, ...],
    form: str,
    reading: Reading,
    *,
    is_live: bool,
    shared_tokens: int,
    token_s: float,
) -> Recording:
    """The recording of a file or folder; ``_versions``, its files as they are now, tell it apart."""
    if form == PAIRED.name:
        if len(files_of(path)) > 1 or is_live or shared_tokens or token_s:
            raise ScenarioError(f"{path}: is a whole workload: mode, shared_prefix_tokens and token_s change nothing")
        return read_whole(path)
    recording = Recording(is_live=is_live, shared_tokens=shared_tokens, token_s=token_s)
    add, has_ids = recording.add, False
    for call in read_calls(path, FORMATS[form], reading):
        add(call)
        has_ids = has_ids or call.ids is not None
    recording.start_at_zero()
    if has_ids and shared_tokens:
        raise ScenarioError(f"shared_prefix_tokens has no effect on {path}: ids say what its prompts share")
    if has_ids and is_live and reading.rows != "add":
        raise ScenarioError(f"mode live is not to be had of {path}: its ids do not say which blocks are answers")
    return recording
