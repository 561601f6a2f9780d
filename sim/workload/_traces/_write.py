"""A workload as rows that load generators read: Mooncake's, AIPerf's reading of them, and Dynamo's.

``mooncake``: a row covers its whole prompt. One call a session: rows in order of time, as Mooncake, SGLang's and vLLM's
benchmarks, guidellm and AIPerf read them. More: rows of a session stand together, later ones with a ``delay``.
``aiperf``: a row of a session adds to the history that AIPerf keeps, its server's answers included; so of a replay the
lengths are kept, and what of a prompt was a recorded answer becomes a generated one. ``dynamo``: rows wait for others,
so sub-agents can be said too. Block ids are chained: one id stands for a block and all before it.
"""

from collections.abc import Iterator
from typing import Any, Final

from policies._content import PRIVATE, Content, count, cut
from sim.errors import ScenarioError
from sim.workload._model import Session, Turn, Workload
from sim.workload._reuse import in_order

Rows = Iterator[dict[str, Any]]


class BlockIds:
    """Numbers the blocks of contents, each with all before it; a last, partial block has a number of its own."""

    def __init__(self, block_tokens: int) -> None:
        """Blocks of ``block_tokens``."""
        self._block = block_tokens
        self._known: dict[Content, int] = {}

    def of(self, content: Content) -> list[int]:
        """One id a block."""
        tokens, block = count(content), self._block
        ends = [*range(block, tokens, block), tokens]
        return [self._known.setdefault(cut(content, end), len(self._known)) for end in ends]


def mooncake(workload: Workload, block_tokens: int) -> Rows:
    """Rows that cover their prompts."""
    ids = BlockIds(block_tokens)
    _refuse_graphs(workload, "mooncake")
    single = _is_single(workload)
    for session in _by_arrival(workload):
        for index, turn in enumerate(session.turns):
            yield {
                **({} if single else {"session_id": _name(session.id)}),
                **_when(workload, session, index),
                "input_length": count(turn.prompt),
                "output_length": turn.output_tokens,
                "hash_ids": ids.of(turn.prompt),
            }


def aiperf(workload: Workload, block_tokens: int) -> Rows:
    """Rows that add to a history with its answers."""
    ids = BlockIds(block_tokens)
    _refuse_graphs(workload, "aiperf")
    single = _is_single(workload)
    for session in _by_arrival(workload):
        before = 0
        for index, turn in enumerate(session.turns):
            tokens = count(turn.prompt)
            added = tokens - before
            if added < 1:
                raise ScenarioError(
                    f"aiperf adds to a history of {before:,} tokens, and turn {index} of session {session.id} has a "
                    f"prompt of {tokens:,}: export it as mooncake or windtunnel"
                )
            yield {
                **({} if single else {"session_id": _name(session.id)}),
                **_when(workload, session, index),
                "input_length": added,
                "output_length": turn.output_tokens,
                # Later rows have no ids: AIPerf then makes a text that nobody else has.
                **({} if index else {"hash_ids": ids.of(turn.prompt)}),
            }
            before = tokens + turn.output_tokens


def dynamo(workload: Workload, block_tokens: int) -> Rows:
    """Rows that wait for others; a sub-agent's stand between those of its parent that it starts and holds back."""
    if workload.follows:
        raise ScenarioError("dynamo cannot say that a group waits for another one")
    ids = BlockIds(block_tokens)
    for session in _by_arrival(workload):
        yield from _agent(workload, session, ids, [])


def _agent(workload: Workload, session: Session, ids: BlockIds, first_waits: list[str], first_s: float = 0.0) -> Rows:
    children = workload.children.get(session.id, ())
    waits, delay_s = first_waits, first_s
    for index, turn in enumerate(session.turns):
        if index:
            joins = [_rid(child.session, -1, workload) for child in children if child.joins_turn == index]
            waits, delay_s = [_rid(session.id, index - 1, workload), *joins], turn.delay_s
        when = {"wait_for": waits, "delay": _ms(delay_s)} if waits else _when(workload, session, 0)
        yield {
            "request_id": _rid(session.id, index, workload),
            "session_id": _name(session.id),
            **when,
            "input_length": count(turn.prompt),
            "output_length": turn.output_tokens,
            "hash_ids": ids.of(turn.prompt),
        }
        for child in children:
            if child.after_turn == index:
                own = workload.session(child.session)
                yield from _agent(workload, own, ids, [_rid(session.id, index, workload)], child.delay_s)


def _rid(session: int, turn: int, workload: Workload) -> str:
    turns = len(workload.session(session).turns) if turn < 0 else 0
    return f"{_name(session)}.{turn % turns if turns else turn}"


def _name(session: int) -> str:
    return f"s{session}"


def _ms(seconds: float) -> float | int:
    """Milliseconds to the nanosecond; a whole number as one."""
    value = round(1000 * seconds, 6)
    return int(value) if value.is_integer() else value


def _when(workload: Workload, session: Session, index: int) -> dict[str, Any]:
    if index:
        return {"delay": _ms(session.turns[index].delay_s)}
    return {"timestamp": _ms(_starts_s(workload, session))}


def _starts_s(workload: Workload, session: Session) -> float:
    """When the first request of a session is sent, if nothing holds the session back."""
    return float(workload.arrival_s[session.group]) + session.turns[0].delay_s


def _by_arrival(workload: Workload) -> Iterator[Session]:
    """Sessions that start by the clock, in the order in which they do."""
    started = {child.session for children in workload.children.values() for child in children}
    sessions = (session for session in in_order(workload) if session.id not in started)
    if not workload.has_boots:
        return sessions
    return iter(sorted(sessions, key=lambda session: _starts_s(workload, session)))


def _refuse_graphs(workload: Workload, form: str) -> None:
    if workload.children:
        raise ScenarioError(f"{form} cannot say that sessions start others: export it as dynamo or windtunnel")
    if workload.follows:
        raise ScenarioError(f"{form} cannot say that a group waits for another one: export it as windtunnel")


def _is_single(workload: Workload) -> bool:
    return all(len(workload.session(index).turns) == 1 for index in range(workload.sessions))


WRITERS: Final = {"mooncake": mooncake, "aiperf": aiperf, "dynamo": dynamo}


def losses(workload: Workload, form: str, block_tokens: int) -> list[str]:
    """What a file in this format does not say of a workload."""
    turns: list[Turn] = [turn for index in range(workload.sessions) for turn in workload.session(index).turns]
    found = [f"what prompts share counts in whole blocks of {block_tokens} tokens"]
    if any(turn.max_tokens != turn.output_tokens for turn in turns):
        found.append("output_length is the realised length: the client's larger limit is not in it")
    if len(set(workload.group_of.tolist())) < workload.sessions:
        found.append("which sessions are a group is not in it: a group key needs the windtunnel format")
    is_live = any(turn.output_source != PRIVATE for turn in turns)
    multi = not _is_single(workload)
    if form == "aiperf" and multi:
        found.append("turns after the first share with their own session only")
        if not is_live:
            found.append("recorded answers are replaced by generated ones of the same length, which can be reused")
    if form != "aiperf" and is_live:
        found.append("which blocks are answers is not in it")
    if form == "dynamo" and workload.children:
        found.append("a call that waits for sub-agents is sent its delay after the last of all that it waits for")
    return found
