"""The behaviour policy: exact probabilities, exact gradients, draws by key alone."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wordle.behaviours import BEHAVIOUR_SPACE
from agent.wordle.game import feedback, word_levels
from rehearsal import tokens
from rehearsal.draws import DrawKey
from rehearsal.policies import ChatRequest, Sample
from rehearsal.policies.behaviour import BehaviourPolicy, behaviour_names, initial_weights

WORDS = sorted(word_levels())
KEY = DrawKey(seed=1, phase="train", step=1, group=0, rollout=0)


class ThreeMoves:
    """A space small enough to be counted by hand: three moves, one habit, one other form."""

    candidates = ("a", "ab", "abc")

    def __init__(self) -> None:
        self.word_habits = {"is_long": ("writes a long word", 0.0)}
        self.format_habits = {"as_text": ("writes text", 0.0)}

    def read(self, messages: Any) -> tuple[()]:
        return ()

    def features_HA(self, known: Any) -> Any:
        return np.array([[0.0, 1.0, 2.0]], np.float32)

    def move(self, candidate: int, form: str) -> dict[str, Any]:
        word = self.candidates[candidate]
        return {"text": word} if form == "as_text" else {"tool": "say", "arguments": word}


def sample(policy: BehaviourPolicy, draw: Any, temperature: float = 1.0, **kw: Any) -> Sample:
    request = ChatRequest(({"role": "user", "content": "go"},), (), temperature, 1.0, 4096)
    request = ChatRequest(
        kw.get("messages", request.messages),
        (),
        temperature,
        kw.get("top_p", 1.0),
        kw.get("max_tokens", 4096),
    )
    return asyncio.run(policy.sample(request, draw))


def move_of(answer: Sample) -> str:
    calls = answer.tool_calls
    return calls[0]["function"]["arguments"] if calls else str(answer.content)


def fixed(form: float, move: float) -> Any:
    return lambda turn, purpose: form if purpose == "form" else move


def test_an_answers_token_logprobs_add_up_to_its_probability() -> None:
    weights = np.array([0.7, -0.4])
    policy = BehaviourPolicy(ThreeMoves(), weights)
    p_move = np.exp([0.0, 0.7, 1.4]) / np.exp([0.0, 0.7, 1.4]).sum()
    p_form = np.exp([0.0, -0.4]) / np.exp([0.0, -0.4]).sum()
    for form in (0, 1):
        for move in range(3):
            middle = float(p_move[:move].sum() + p_move[move] / 2)
            answer = sample(policy, fixed([0.1, 0.99][form], middle))
            assert move_of(answer) == ThreeMoves.candidates[move]
            expected = np.log(p_form[form] * p_move[move])
            assert sum(answer.logprobs) == pytest.approx(expected)
            assert len(answer.logprobs) == len(answer.token_ids)


@given(st.lists(st.floats(-2, 2), min_size=2, max_size=2), st.floats(0, 0.999), st.floats(0, 0.999))
@settings(max_examples=30, deadline=None)
def test_the_score_is_the_gradient_of_the_log_probability(
    weights: list[float], form: float, move: float
) -> None:
    step = 1e-5
    answer = sample(BehaviourPolicy(ThreeMoves(), np.array(weights)), fixed(form, move))
    assert answer.score_K is not None
    for k in range(2):
        sides = []
        for sign in (1, -1):
            moved = np.array(weights)
            moved[k] += sign * step
            sides.append(log_probability(moved, answer))
        assert answer.score_K[k] == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=1e-4)


def log_probability(weights: Any, answer: Sample) -> float:
    """By hand, from the definition: a softmax over moves times a softmax over forms."""
    move = ThreeMoves.candidates.index(move_of(answer))
    logits = weights[0] * np.array([0.0, 1.0, 2.0])
    forms = np.array([0.0, weights[1]])
    chosen = 0 if answer.tool_calls else 1
    return float(
        logits[move] - np.log(np.exp(logits).sum()) + forms[chosen] - np.log(np.exp(forms).sum())
    )


def test_draws_follow_the_distribution() -> None:
    policy = BehaviourPolicy(ThreeMoves(), np.array([0.7, -20.0]))
    keys = [DrawKey(1, "train", 1, i, 0) for i in range(3000)]
    counts = Counter(move_of(sample(policy, key.uniform)) for key in keys)
    expected = np.exp([0.0, 0.7, 1.4]) / np.exp([0.0, 0.7, 1.4]).sum()
    shares = [counts[word] / len(keys) for word in ThreeMoves.candidates]
    assert shares == pytest.approx(expected.tolist(), abs=0.03)


def test_temperature_zero_takes_the_most_probable_move_whatever_the_draw() -> None:
    policy = BehaviourPolicy(ThreeMoves(), np.array([0.7, -0.1]))
    answers = {move_of(sample(policy, fixed(u, u), 0.0)) for u in (0.0, 0.5, 0.999)}
    assert answers == {"abc"}


def test_top_p_keeps_the_head_of_the_distribution() -> None:
    policy = BehaviourPolicy(ThreeMoves(), np.array([2.0, -20.0]))
    moves = {
        move_of(sample(policy, DrawKey(1, "t", 1, i, 0).uniform, top_p=0.5)) for i in range(200)
    }
    assert moves == {"abc"}


def test_an_answer_longer_than_max_tokens_is_cut_and_says_so() -> None:
    answer = sample(BehaviourPolicy(ThreeMoves(), np.zeros(2)), fixed(0.1, 0.1), max_tokens=2)
    assert (answer.finish_reason, answer.sample_tokens, answer.tool_calls) == ("length", 2, ())


def conversation(answer: str, guesses: list[str]) -> tuple[dict[str, Any], ...]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Play."}]
    for word in guesses:
        messages.append({"role": "assistant", "content": ""})
        text = f"{word.upper()}: {feedback(answer, word)}\nmore"
        messages.append({"role": "tool", "content": [{"type": "text", "text": text}]})
    return tuple(messages)


@given(
    st.sampled_from(WORDS),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True),
)
@settings(max_examples=40, deadline=None)
def test_a_word_fits_all_clues_exactly_when_it_would_have_given_them(
    answer: str, guesses: list[str]
) -> None:
    known = BEHAVIOUR_SPACE.read(conversation(answer, guesses))
    assert [guess for guess, _ in known] == guesses
    names = list(BEHAVIOUR_SPACE.word_habits)
    fits = BEHAVIOUR_SPACE.features_HA(known)[names.index("fits_all_clues")]
    marks = [feedback(answer, guess) for guess in guesses]
    for i in [*range(0, len(WORDS), 97), WORDS.index(answer)]:
        would = [feedback(WORDS[i], guess) for guess in guesses] == marks
        assert bool(fits[i]) == would, WORDS[i]


def test_wordle_moves_are_what_the_tokenizer_writes() -> None:
    policy = BehaviourPolicy(BEHAVIOUR_SPACE, initial_weights(BEHAVIOUR_SPACE))
    answer = sample(policy, fixed(0.1, 0.42))
    arguments = answer.tool_calls[0]["function"]["arguments"]
    assert list(answer.token_ids) == tokens.call_tokens("guess_word", arguments)
    assert json.loads(arguments)["guess"] in BEHAVIOUR_SPACE.candidates
    assert answer.score_K is not None
    assert len(answer.score_K) == len(behaviour_names(BEHAVIOUR_SPACE))


def test_the_same_key_draws_the_same_and_another_draws_otherwise() -> None:
    policy = BehaviourPolicy(BEHAVIOUR_SPACE, initial_weights(BEHAVIOUR_SPACE))
    first, again = sample(policy, KEY.uniform), sample(policy, KEY.uniform)
    assert move_of(first) == move_of(again)
    others = {move_of(sample(policy, DrawKey(1, "train", 1, 0, r).uniform)) for r in range(8)}
    assert len(others) > 1
