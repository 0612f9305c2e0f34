"""The embedded trainable policy: a softmax over candidate moves, log-linear in named behaviours.

An answer is a move and the form it is sent in (tool call, text, malformed call), each drawn from
its own softmax. Log-probabilities are exact, for the answer and for each of its tokens; the
gradient of an answer's log-probability has the closed form "behaviours of the move taken minus
their mean under the policy", so learning needs no backward pass.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rehearsal import tokens
from rehearsal.policies import ChatRequest, Sample, tool_call

TOOL_FORM = "tool"
CACHED_STATES = 128
"""Distributions kept per set of weights; the opening state alone serves a game in four."""


class BehaviourSpace(Protocol):
    """What a task's folder tells about its moves (module `behaviours`, `BEHAVIOUR_SPACE`)."""

    @property
    def word_habits(self) -> Mapping[str, tuple[str, float]]:
        """Behaviour in the choice of a move -> (what it does, weight before training)."""
        ...

    @property
    def format_habits(self) -> Mapping[str, tuple[str, float]]:
        """Behaviour in the form of a move -> the same; a tool call is the alternative at 0."""
        ...

    @property
    def candidates(self) -> tuple[str, ...]:
        """The A moves."""
        ...

    def read(self, messages: tuple[Mapping[str, Any], ...]) -> Hashable:
        """What the conversation tells, as a hashable state."""
        ...

    def features_HA(self, known: Any) -> NDArray[np.float32]:
        """How much each move shows each behaviour in this state: (H, A)."""
        ...

    def move(self, candidate: int, form: str) -> dict[str, Any]:
        """The message that makes a move in a form: {"text"} or {"tool", "arguments"}."""
        ...


def behaviour_names(space: BehaviourSpace) -> tuple[str, ...]:
    """The K weights' names: moves first, then forms."""
    return (*space.word_habits, *space.format_habits)


def initial_weights(space: BehaviourSpace) -> NDArray[np.float64]:
    """The K weights before training."""
    habits = (*space.word_habits.values(), *space.format_habits.values())
    return np.array([weight for _, weight in habits])


@dataclass(frozen=True, slots=True)
class _Choice:
    """A distribution over moves in one state."""

    features_HA: NDArray[np.float32]
    probability_A: NDArray[np.float64]
    mean_H: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A drawn move and how it is sent."""

    form: str
    """TOOL_FORM or the name of a format habit."""
    move: int
    """Index among the space's candidates."""
    form_logprob: float
    probability_A: NDArray[np.float64]
    """What the move was drawn from."""
    score_K: NDArray[np.float32]
    """Gradient of the choice's log-probability by the weights."""


class BehaviourPolicy:
    """One set of weights over a task's behaviours. Immutable: a new step makes a new policy."""

    def __init__(self, space: BehaviourSpace, weights_K: NDArray[np.float64]) -> None:
        self.space = space
        self.weights_K = weights_K
        self._forms = (TOOL_FORM, *space.format_habits)
        self._moves = len(space.word_habits)
        self._choices: OrderedDict[tuple[Hashable, float, float], _Choice] = OrderedDict()
        self._written = _WrittenMoves(space)

    async def sample(self, request: ChatRequest, draw: Callable[[int, str], float]) -> Sample:
        """Draw a form, then a move; see Policy.sample."""
        chosen = self.choose(
            self.space.read(request.messages),
            lambda purpose: draw(request.turn, purpose),
            request.temperature,
            request.top_p,
        )
        ids, logprobs = self._written.tokens(
            chosen.form, chosen.move, chosen.probability_A, chosen.form_logprob
        )
        return self._answer(request, chosen, ids, logprobs)

    def choose(
        self, state: Hashable, draw: Callable[[str], float], temperature: float, top_p: float = 1.0
    ) -> Chosen:
        """The choice behind an answer, before it is written as tokens.

        Args:
            state: what `BehaviourSpace.read` made of the conversation.
            draw: purpose -> a number in [0, 1).
        """
        form_p = _softmax(np.array([0.0, *self.weights_K[self._moves :]]), temperature)
        form_i = _draw(form_p, draw("form"))
        choice = self._choice(state, temperature, top_p)
        move_i = _draw(choice.probability_A, draw("move"))
        return Chosen(
            form=self._forms[form_i],
            move=move_i,
            form_logprob=float(np.log(form_p[form_i])),
            probability_A=choice.probability_A,
            score_K=self._score(choice, move_i, form_p, form_i, temperature),
        )

    def _choice(self, state: Hashable, temperature: float, top_p: float) -> _Choice:
        key = (state, temperature, top_p)
        choice = self._choices.get(key)
        if choice is None:
            features = self.space.features_HA(state)
            logits = self.weights_K[: self._moves] @ features
            probability = _nucleus(_softmax(logits, temperature), top_p)
            choice = _Choice(features, probability, features @ probability)
            self._choices[key] = choice
            if len(self._choices) > CACHED_STATES:
                self._choices.popitem(last=False)
        else:
            self._choices.move_to_end(key)
        return choice

    def _score(
        self,
        choice: _Choice,
        move_i: int,
        form_p: NDArray[np.float64],
        form_i: int,
        temperature: float,
    ) -> NDArray[np.float32]:
        taken = choice.features_HA[:, move_i] - choice.mean_H
        form_taken = (np.arange(1, len(form_p)) == form_i) - form_p[1:]
        score = np.concatenate([taken, form_taken]) / max(temperature, _GREEDY_BELOW)
        return score.astype(np.float32)

    def _answer(
        self,
        request: ChatRequest,
        chosen: Chosen,
        ids: tuple[int, ...],
        logprobs: tuple[float, ...],
    ) -> Sample:
        move = self.space.move(chosen.move, chosen.form)
        cut = len(ids) > request.max_tokens
        calls = ()
        if "tool" in move and not cut:
            calls = (tool_call(request.turn, move["tool"], move["arguments"]),)
        return Sample(
            content=move.get("text") if not cut else "",
            tool_calls=calls,
            finish_reason="length" if cut else "tool_calls" if calls else "stop",
            token_ids=ids[: request.max_tokens],
            logprobs=logprobs[: request.max_tokens],
            prefill_tokens=tokens.prefill_tokens(
                {"messages": request.messages, "tools": list(request.tools)}
            ),
            score_K=chosen.score_K,
        )


class _WrittenMoves:
    """Every move of a form as tokens, and the exact log-probability of each of them.

    Dimensions: A moves, T tokens of the longest one.
    """

    def __init__(self, space: BehaviourSpace) -> None:
        self._space = space
        self._tables: dict[str, NDArray[np.int32]] = {}

    def tokens(
        self, form: str, move_i: int, probability_A: NDArray[np.float64], form_logprob: float
    ) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Token ids and log-probabilities; they add up to the answer's log-probability.

        The form is decided with the first token; each later token has the probability that the
        moves which begin like this one go on like this one.
        """
        table_AT = self._table(form)
        row_T = table_AT[move_i]
        ids, logprobs = [], []
        still_A = probability_A
        mass = 1.0
        begins_alike = np.ones(len(table_AT), bool)
        for place, token in enumerate(row_T):
            if token < 0:
                break
            column = table_AT[:, place] == token
            if not column.all():
                begins_alike &= column
                still_A = np.where(begins_alike, probability_A, 0.0)
            new_mass = float(still_A.sum()) if not column.all() else mass
            ids.append(int(token))
            logprobs.append(float(np.log(new_mass / mass)) if new_mass != mass else 0.0)
            mass = new_mass
        logprobs[0] += form_logprob
        return tuple(ids), tuple(logprobs)

    def _table(self, form: str) -> NDArray[np.int32]:
        table = self._tables.get(form)
        if table is None:
            rows = [self._ids(i, form) for i in range(len(self._space.candidates))]
            width = max(len(row) for row in rows)
            table = np.full((len(rows), width), -1, np.int32)
            for i, row in enumerate(rows):
                table[i, : len(row)] = row
            self._tables[form] = table
        return table

    def _ids(self, candidate: int, form: str) -> list[int]:
        move = self._space.move(candidate, form)
        if "text" in move:
            return tokens.text_tokens(move["text"])
        return tokens.call_tokens(move["tool"], move["arguments"])


_GREEDY_BELOW = 1e-6
"""At or below this temperature the most probable move is taken."""


def _softmax(logits: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    if temperature <= _GREEDY_BELOW:
        greedy = np.zeros_like(logits)
        greedy[int(np.argmax(logits))] = 1.0
        return greedy
    scaled = logits / temperature
    weights = np.exp(scaled - scaled.max())
    return weights / weights.sum()


def _nucleus(probability_A: NDArray[np.float64], top_p: float) -> NDArray[np.float64]:
    """Keep the most probable moves whose mass reaches top_p; the first always stays."""
    if top_p >= 1.0:
        return probability_A
    order = np.argsort(-probability_A, kind="stable")
    before = np.cumsum(probability_A[order]) - probability_A[order]
    kept = np.zeros_like(probability_A)
    chosen = order[(before < top_p) | (np.arange(len(order)) == 0)]
    kept[chosen] = probability_A[chosen]
    return kept / kept.sum()


def _draw(probability: NDArray[np.float64], number: float) -> int:
    """The index whose share of [0, 1) holds `number`."""
    index = int(np.searchsorted(np.cumsum(probability), number, side="right"))
    last = int(np.flatnonzero(probability)[-1])  # rounding can leave the sum just below 1
    return min(index, last)
