"""An episode from its row to its summary, without a model."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent.task import Episode, Task, load_task
from agent.wordle.game import feedback, words
from agent.wordle.task import WordleEpisode, WordleTask


def start(answer: str = "crane", **task: Any) -> WordleEpisode:
    row = {"prompt": "Play one game.", "answer": answer, "id": "row-7"}
    return WordleTask(**task).start(json.dumps(row))


def test_the_registry_returns_the_task_and_its_episode():
    task = load_task("wordle")
    episode = task.start(json.dumps({"prompt": "Play.", "answer": "crane", "id": "a"}))
    assert isinstance(task, Task) and isinstance(episode, Episode)
    assert task.name == "wordle"


def test_the_episode_has_one_tool_with_one_argument():
    (tool,) = start().tools
    schema = tool.tool_spec["inputSchema"]["json"]
    assert tool.tool_name == "guess_word"
    assert list(schema["properties"]) == schema["required"] == ["guess"]
    assert schema["properties"]["guess"]["type"] == "string"


def test_a_tool_call_and_the_same_move_as_text_get_the_same_answer():
    called, written = start(), start()
    assert called.tools[0](guess="stare") == written.recover('guess_word("stare")')


def test_the_answer_to_a_guess_begins_with_the_word_and_its_marks():
    assert start("eerie").guess("steep").splitlines() == [
        "STEEP: XXYYX",
        "Yellow (in the word, place unknown): E at least twice, not in place 3 or 4",
        "Grey (not in the word): P, S, T",
        "Words tried: STEEP",
        "Attempts left: 5",
    ]


def test_a_letter_that_is_green_and_grey_is_told_as_limited_not_as_absent():
    lines = start("those").guess("geese").splitlines()
    assert lines[0] == "GEESE: XXXGG"
    assert "Green (right place): _ _ _ S E" in lines
    assert "No further copy: E exactly once" in lines
    assert "Grey (not in the word): G" in lines


def test_a_second_copy_is_still_told_after_one_is_green():
    lines = start("eerie").guess("level").splitlines()
    assert "Green (right place): _ E _ _ _" in lines
    assert "Yellow (in the word, place unknown): E at least twice in all, not in place 4" in lines


def test_a_solve_says_so_in_the_second_line_and_ends_the_game():
    episode = start()
    episode.guess("stare")
    assert episode.guess(" CRANE\n").splitlines() == [
        "CRANE: GGGGG",
        "Solved in 2 of 6 attempts. The game is over.",
    ]
    assert episode.done
    assert episode.reward() == pytest.approx(1.45, abs=0.04)


def test_a_loss_says_that_no_attempts_are_left_and_not_the_answer():
    episode = start()
    text = [episode.guess("stomp") for _ in range(6)][-1]
    assert "no attempts are left" in text and "crane" not in text.lower()
    assert episode.done and episode.summary()["outcome"] == "lost"


def test_a_word_outside_the_list_is_marked_costs_an_attempt_and_is_named_as_such():
    lines = start().guess("czzzz").splitlines()
    assert lines[0] == "CZZZZ: GXXXX"
    assert "CZZZZ is not in the word list; it cost an attempt." in lines
    assert "Attempts left: 5" in lines


@pytest.mark.parametrize("guess", ["cranes", "cr4ne", "", None, 5, ["crane"], "cr\u0430ne"])
def test_what_cannot_be_played_is_answered_counted_and_costs_no_attempt(guess):
    episode = start()
    text = episode.tools[0](guess=guess)
    assert text.startswith("Not played:") and "\n" not in text
    summary = episode.summary()
    assert summary["turns"] == 0
    assert summary["formats"]["malformed"] == summary["violations"]["malformed"] == 1
    assert episode.guess("stare").endswith("Attempts left: 5")


def test_a_call_through_strands_without_the_argument_is_answered_and_counted():
    episode = start()

    async def call(arguments: Any) -> Any:
        use: Any = {"toolUseId": "1", "name": "guess_word", "input": arguments}
        return [event async for event in episode.tools[0].stream(use, {})][-1]

    for arguments in ({}, {"guess": ["crane"]}, {"word": "crane"}):
        assert "Not played:" in str(asyncio.run(call(arguments)))
    assert "STARE: " in str(asyncio.run(call({"guess": "stare"})))
    assert episode.summary()["formats"] == {"tool_calls": 4, "text_moves": 0, "malformed": 3}


def test_nothing_is_played_or_counted_after_the_end():
    episode = start()
    episode.guess("crane")
    before = episode.summary()
    for text in (episode.guess("stare"), episode.guess("x"), episode.recover("guess=stare")):
        assert text is not None and text.startswith("The game is over")
    assert episode.summary() == before


def test_text_without_a_move_changes_nothing():
    episode = start()
    assert episode.recover("I think crane fits.") is None
    assert episode.summary()["formats"] == {"tool_calls": 0, "text_moves": 0, "malformed": 0}


def test_a_text_move_is_one_move_and_a_format_fault():
    episode = start()
    text = episode.recover('{"guess": "stare"} {"guess": "crane"}')
    assert text is not None and text.startswith("STARE: ")
    summary = episode.summary()
    assert summary["turns"] == 1
    assert summary["formats"] == {"tool_calls": 0, "text_moves": 1, "malformed": 0}
    assert summary["violations"]["text_move"] == 1
    assert summary["guesses"][0]["recovered"] is True


def test_outcomes_tell_unplayed_unfinished_and_lost_games_apart():
    episode = start()
    assert (episode.summary()["outcome"], episode.reward()) == ("unplayed", -1.5)
    episode.guess("stomp")
    assert episode.summary()["outcome"] == "unfinished"
    assert -0.65 <= float(episode.reward()) < -0.5  # type: ignore[arg-type]


def test_the_summary_has_every_violation_and_the_parts_of_the_reward():
    episode = start()
    for guess in ("stomp", "stomp", "zzzzz", "cr", "crane"):
        episode.guess(guess)
    summary = episode.summary()
    assert summary["violations"] == {
        "broken_green": 0,
        "lost_yellow": 0,
        "reused_grey": 5,
        "repeat": 1,
        "non_word": 1,
        "malformed": 1,
        "text_move": 0,
    }
    parts = summary["reward_parts"]
    assert parts["total"] == episode.reward()
    assert len(parts["turns"]) == 5
    assert sum(turn["reward"] for turn in parts["turns"]) == pytest.approx(parts["total"])
    assert json.loads(json.dumps(summary)) == summary


def test_a_list_of_rewards_is_returned_when_so_configured():
    whole, by_turn = start(), start(per_turn=True)
    for episode in (whole, by_turn):
        for guess in ("stomp", "no", "crane"):
            episode.guess(guess)
    rewards = by_turn.reward()
    assert isinstance(rewards, list) and len(rewards) == 3
    assert sum(rewards) == pytest.approx(whole.reward())


def test_the_environment_chooses_the_reward_and_an_argument_overrules_it(monkeypatch):
    monkeypatch.setenv("WORDLE_REWARD", "summed")
    monkeypatch.setenv("WORDLE_REWARD_PER_TURN", "1")
    episode = start()
    episode.guess("crane")
    assert episode.reward() == [0.99]
    episode = start(reward="default", per_turn=False)
    episode.guess("crane")
    assert episode.reward() == pytest.approx(1.55, abs=0.04)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("WORDLE_REWARD", "best", "WORDLE_REWARD: no reward named 'best'; known: default, summed"),
        ("WORDLE_REWARD_PER_TURN", "maybe", "WORDLE_REWARD_PER_TURN: 'maybe' is neither 0 nor 1"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(monkeypatch, name, value, message):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        WordleTask()


def test_calls_from_several_threads_each_get_one_attempt_or_the_end():
    episode = start()
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(episode.guess("stomp"))) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(text.startswith("STOMP: ") for text in answers) == 6
    assert sum(text.startswith("The game is over") for text in answers) == 14


moves = st.sampled_from(words()) | st.text(max_size=8) | st.none()


@settings(max_examples=40)
@given(st.lists(moves, min_size=1, max_size=9), st.integers(0, 10**6))
def test_games_with_the_same_marks_cannot_be_told_apart_by_anything_that_is_said(guesses, seed):
    """So nothing that an episode says depends on the answer but through the marks: no text, no
    tool description, no summary, no reward, whether the game is lost or broken off."""
    rng = random.Random(seed)
    played = [guess for guess in guesses if guess in words()]
    answer = rng.choice(words())
    marks = [feedback(answer, guess) for guess in played]
    alike = (
        word
        for word in rng.sample(words(), len(words()))
        if word != answer and [feedback(word, guess) for guess in played] == marks
    )
    other = next(alike, None)
    assume(other is not None and answer not in played)
    one, two = start(answer), start(str(other))
    for guess in guesses:
        assert one.guess(guess) == two.guess(guess)
    assert one.summary() == two.summary()
    assert one.reward() == two.reward()
    for said in ("system_prompt", "user_prompt", "row_id", "done", "outcome"):
        assert getattr(one, said) == getattr(two, said)
    assert one.tools[0].tool_spec == two.tools[0].tool_spec


def test_two_episodes_of_one_task_share_nothing():
    one, other = start("crane"), start("stomp")
    rng = random.Random(3)
    for word in rng.sample(words(), 3):
        one.guess(word)
    assert other.summary()["turns"] == 0
    assert other.guess("stomp").startswith("STOMP: GGGGG")
    assert not one.done
