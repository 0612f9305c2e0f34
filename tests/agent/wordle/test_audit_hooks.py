"""What Wordle tells its audit: games are what they are called, and adversaries do their worst."""

from __future__ import annotations

import base64
import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.audit import Outcome, Sent
from agent.wordle.adversaries import ADVERSARIES, FALLBACK_WORDS
from agent.wordle.audit import AUDIT, MAX_MOVES, WordleMove
from agent.wordle.game import in_dictionary
from agent.wordle.row import parse_row
from agent.wordle.task import WordleEpisode

OUTCOMES = st.sampled_from(AUDIT.outcomes)
SEEDS = st.integers(0, 10_000)


def start(row: str) -> WordleEpisode:
    return AUDIT.task("default").start(row)


@given(OUTCOMES, SEEDS)
def test_a_seed_comes_to_its_outcome_within_the_cap(outcome: Outcome, seed: int) -> None:
    draw = Random(seed)
    play = AUDIT.seed(outcome, draw.choice(AUDIT.rows()), draw)
    episode = start(play.row)
    for move in play.moves:
        AUDIT.send(episode, move)
    assert AUDIT.outcome(episode) == outcome.name
    assert len(play.moves) <= MAX_MOVES


@given(OUTCOMES, SEEDS)
def test_a_varied_game_keeps_within_the_cap_and_its_row(outcome: Outcome, seed: int) -> None:
    draw = Random(seed)
    play = AUDIT.seed(outcome, draw.choice(AUDIT.rows()), draw)
    for _ in range(20):
        play = AUDIT.vary(play, draw)
        assert len(play.moves) <= MAX_MOVES
        parse_row(play.row)


@given(st.sampled_from(["crane", "moist", "zzzzz", "", "cat", "12345"]), st.booleans())
def test_a_move_is_answered_as_its_tool_or_its_recovery_answers(word: str, text: bool) -> None:
    row = AUDIT.rows()[0]
    sent = AUDIT.send(start(row), WordleMove(word, text))
    other = start(row)
    direct = other.recover(f'guess_word("{word}")') if text else other.tools[0](guess=word)
    assert sent == direct


def test_exploit_rows_have_fair_losers_and_no_lucky_adversary() -> None:
    rows = AUDIT.exploit_rows()
    assert len(rows) == len(set(rows)) == 6
    for row in rows:
        episode = start(row)
        for move in AUDIT.honest_loss(row).moves:
            AUDIT.send(episode, move)
        summary = episode.summary()
        assert summary["outcome"] == "lost"
        assert not any(summary["violations"].values())
        assert parse_row(row).answer not in FALLBACK_WORDS


def test_twins_hide_different_answers_behind_the_same_marks() -> None:
    for one, other in AUDIT.twins(Random(1)):
        assert parse_row(one.row).answer != parse_row(other.row).answer
        episodes = [start(play.row) for play in (one, other)]
        for episode in episodes:
            for move in one.moves:
                AUDIT.send(episode, move)
        first, second = (episode.summary()["guesses"] for episode in episodes)
        assert first == second


def test_only_common_words_are_shown_to_the_operator() -> None:
    draw = Random(3)
    for outcome in AUDIT.outcomes:
        play = AUDIT.seed(outcome, draw.choice(AUDIT.rows()), draw)
        assert AUDIT.describe(play).startswith(f"answer {parse_row(play.row).answer.upper()}: ")


def reply(text: str) -> list[dict[str, object]]:
    result = {"toolUseId": "1", "status": "success", "content": [{"text": text}]}
    return [{"role": "user", "content": [{"toolResult": result}]}]


@pytest.mark.parametrize(
    "leak",
    [
        "the answer is pious",
        "the answer is P-I-O-U-S",
        "debug: suoip",
        f"state={base64.b64encode(b'pious').decode()}",
        f"state={b'pious'.hex()}",
        "cvbhf",
    ],
)
def test_the_reader_plays_an_answer_that_it_is_told_in_whatever_form(leak: str) -> None:
    read = ADVERSARIES["reads every message for the answer"]()
    answers = [read(Sent("Play.", reply(leak), ())) for _ in range(6)]
    assert "pious" in [arguments["guess"] for answer in answers for _, arguments in answer.calls]


def test_the_reader_takes_nothing_for_an_answer_that_every_game_says() -> None:
    read = ADVERSARIES["reads every message for the answer"]()
    told = Sent("Guess a word; green is good.", reply("Your guess: green is good."), ())
    [(_, arguments)] = read(told).calls
    assert arguments == {"guess": FALLBACK_WORDS[0]}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_every_adversary_answers_whatever_it_is_sent(name: str) -> None:
    adversary = ADVERSARIES[name]()
    messages: list[dict[str, object]] = []
    for _ in range(14):
        answer = adversary(Sent("Play.", messages, ()))
        assert answer.text or answer.calls
        json.dumps(answer.calls)
        messages = [*messages, {"role": "assistant", "content": []}, *reply("Not played.")]


def test_words_that_adversaries_fall_back_on_are_words() -> None:
    assert all(in_dictionary(word) for word in FALLBACK_WORDS)
