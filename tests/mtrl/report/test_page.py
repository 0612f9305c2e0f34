"""The page and what it carries: complete, escaped, within its size."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.trace import Trace, Turn
from mtrl.errors import InputError
from mtrl.report.answers import NOTHING, join
from mtrl.report.curves import panels
from mtrl.report.folder import read_folder
from mtrl.report.games import GameSet, Kind, Sampling, read_line
from mtrl.report.page import render
from mtrl.report.replay import pack
from mtrl.report.run import Point, Run
from mtrl.report.views import board, places

Play = Callable[..., Trace]
Rows = Callable[[str], list[dict[str, Any]]]
HOSTILE = "</script><img src=x onerror=alert(1)>&<!--\u2028"


def unpack(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def run_of(*traces: Trace, kind: Kind = Kind.EVALUATION) -> Run:
    games = tuple(read_line(trace.to_json())[0] for trace in traces)
    sets = (GameSet(kind, "base", None, Sampling(temperature=1.0), games),)
    return Run("title", "Traces", "wordle", sets, 1.0, "gpt-oss-20b", "us-east-1")


class Tags(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def html(rehearsal: Path) -> str:
    run = read_folder(rehearsal)
    return render(run, join(run)).decode()


def test_the_page_refers_to_nothing_outside_itself(html: str) -> None:
    for tag, attributes in Tags(html).found:
        assert "src" not in attributes, tag
        assert "style" not in attributes, tag
        assert not any(name.startswith("on") for name in attributes), tag
        link = attributes.get("href")
        assert link is None or link.startswith("#"), link
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/)", html)


def test_the_policy_allows_the_pages_own_style_and_script_and_nothing_else(html: str) -> None:
    policy = next(a["content"] for _, a in Tags(html).found if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for tag, element in (("style", "style"), ("script", "script")):
        body = re.findall(rf"<{element}>(.*?)</{element}>", html, re.DOTALL)
        assert len(body) == 1
        digest = base64.b64encode(hashlib.sha256(body[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_the_page_has_every_section_with_its_settings(html: str) -> None:
    for section in ("result", "curves", "turns", "errors", "words", "cost", "learned", "replay"):
        assert f'<section id="{section}"' in html
    text = " ".join(" ".join(Tags(html).text).split())
    assert "step (training T 1 · validation T 0)" in text
    assert "Temperature 1, effort not set" in text
    assert "83.3% [43.6%, 97.0%]" in text  # Wilson's interval of 5 of 6
    assert "trained less base: +66.7 points" in text
    assert "Nothing was paid" in text
    assert "No held-out row shares its answer" in text


def test_a_section_without_content_is_left_out(play: Play, rows: Rows) -> None:
    row = rows("validation")[0]
    html = render(run_of(play(row, [row["answer"]])), NOTHING).decode()
    assert '<section id="curves"' not in html
    assert '<section id="learned"' not in html
    assert '<section id="words"' not in html
    assert "1 of 1 games" in html


def test_markup_in_a_games_data_stays_data(play: Play, rows: Rows) -> None:
    row = {**rows("validation")[0], "id": HOSTILE}
    trace = play(row, ["crane"], text=HOSTILE, trajectory=HOSTILE, reasoning=HOSTILE,
                 reasoning_effort=HOSTILE)  # fmt: skip
    run = replace(
        run_of(trace),
        title=HOSTILE,
        task=HOSTILE,
        facts=((HOSTILE, HOSTILE),),
        notes=(HOSTILE,),
        learned=[{"meaning": HOSTILE, "before": 1, "after": 2}],
    )
    faulty = replace(run.sets[0].games[0], faults={HOSTILE: 1}, stop_reason=HOSTILE)
    sets = (replace(run.sets[0], games=(faulty,), policy=HOSTILE, sampling=faulty.sampling),)
    page = render(replace(run, sets=sets), NOTHING).decode()
    tags = Tags(page).found
    assert not any(tag == "img" for tag, _ in tags)
    scripts = [attributes.get("type") for tag, attributes in tags if tag == "script"]
    assert scripts == ["application/json", "text/plain", "text/plain", None]
    assert HOSTILE not in page


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80))
def test_what_a_model_wrote_comes_back_as_it_was(text: str) -> None:
    turn = Turn(text, text, (), "stop", 1, 2, 0.5)
    trace = Trace("t", text, "job", text, {}, (turn,), "quit", None, {}, 1.0)
    replay = pack(run_of(trace), NOTHING)
    (entry,), (detail,) = unpack(replay.index), unpack(replay.blocks[0])
    assert (entry["row"], entry["id"]) == (text, text)
    assert detail["turns"][0]["text"] == text


def test_half_a_character_does_not_break_the_page(play: Play, rows: Rows) -> None:
    row = rows("validation")[0]
    run = run_of(play(row, ["crane"], text="half \ud83d"))
    page = render(replace(run, notes=("half \ud83d",)), NOTHING)
    assert "half ?" in page.decode()


def test_games_are_in_the_replay_with_the_answer_of_their_row(rehearsal: Path) -> None:
    run = read_folder(rehearsal)
    replay = pack(run, join(run))
    entries = unpack(replay.index)
    assert replay.games == replay.total == len(entries) == 48
    details = [game for block in replay.blocks for game in unpack(block)]
    for entry, detail in zip(entries, details, strict=True):
        if entry["solved"]:
            assert detail["board"][-1][0] == entry["answer"]
    assert {entry["set"] for entry in entries} == set(range(len(run.sets)))


def test_when_not_all_games_fit_every_set_still_shows_some(rehearsal: Path) -> None:
    run = read_folder(rehearsal)
    many = tuple(replace(games, games=games.games * 40) for games in run.sets)
    large = replace(run, sets=many)
    everything = pack(large, NOTHING)
    size = len(everything.index) + sum(map(len, everything.blocks))
    some = pack(large, NOTHING, size // 2)
    assert 0 < some.games < some.total == everything.games
    assert {e["set"] for e in unpack(some.index)} == set(range(len(many)))
    assert len(some.index) + sum(map(len, some.blocks)) <= size // 2
    assert "The others are counted above" in render(large, NOTHING, None, size // 2).decode()


def test_a_thousand_wordy_games_stay_within_five_megabytes(play: Play, rows: Rows) -> None:
    """As many tokens of reasoning as the reference's games have: 1,500, of words at random."""
    draw = random.Random(1)
    words = [row["answer"] for row in rows("train")]
    played = [play(row, [*draw.sample(words, 3), row["answer"]]) for row in rows("validation")[:64]]
    traces = [
        replace(
            trace,
            trajectory_id=f"rollout-{n}-{draw.getrandbits(160):040x}",
            turns=tuple(
                replace(turn, reasoning=" ".join(draw.choices(words, k=375)))
                for turn in trace.turns
            ),
        )
        for n in range(16)
        for trace in played
    ]
    run = run_of(*traces)
    page = render(run, NOTHING)
    assert "1,024 of 1,024 games" in page.decode()
    assert len(page) <= 5_000_000


def test_a_board_row_belongs_to_the_move_that_played_it(play: Play) -> None:
    row = {"prompt": "Play.", "answer": "crane", "id": "x"}
    trace = play(row, ["toolong", "(crate)", "fuzzy", "crane"])
    assert board(trace.summary) == [("crate", "GGGXG"), ("fuzzy", "XXXXX"), ("crane", "GGGGG")]
    at = [place for turn in places(trace) for place in turn]
    assert [place.row for place in at] == [None, 0, 1, 2]
    assert [place.part for place in at] == [0, 1, 2, 3]


def test_moves_that_no_answer_places_are_placed_nowhere(play: Play) -> None:
    trace = play({"prompt": "Play.", "answer": "crane", "id": "x"}, ["crate", "fuzzy"])
    silent = tuple(
        replace(turn, moves=tuple(replace(move, feedback="ok") for move in turn.moves))
        for turn in trace.turns
    )
    at = [p for turn in places(replace(trace, turns=silent)) for p in turn]
    assert [(p.row, p.part) for p in at] == [(None, None), (None, None)]


@pytest.mark.parametrize(
    "summary",
    [
        {},
        {"guesses": None},
        {"guesses": ["crane"]},
        {"guesses": [{"word": "crane", "marks": "GG"}]},
        {"guesses": [{"word": "ab", "marks": "??"}]},
    ],
)
def test_a_summary_without_tiles_has_no_board(summary: dict[str, Any]) -> None:
    assert board(summary) is None


def test_training_and_validation_are_lines_of_their_own(rehearsal: Path) -> None:
    found = {panel.title: panel for panel in panels(read_folder(rehearsal))}
    rate = found["Solve rate"]
    assert rate.columns == (
        "Training (temperature 1, effort not set)", "Validation (temperature 0, effort not set)",
    )  # fmt: skip
    assert [row[0] for row in rate.rows] == ["0", "1", "2"]
    assert rate.rows[0][1] == ""
    assert rate.rows[2][2].startswith("66.7% [")
    assert "at step 2" in rate.chart
    assert found["Groups that tie and teach nothing"].columns == rate.columns[:1]


def test_recorded_metrics_stand_in_for_games_whose_steps_are_unknown(
    play: Play, rows: Rows
) -> None:
    sampling = Sampling(temperature=0.0)
    points = tuple(
        Point(Kind.VALIDATION, step, "val/reward/pass_at_1", value, sampling)
        for step, value in ((0, 0.1), (10, 0.8))
    )
    trace = play(rows("validation")[0], ["crane"])
    run = replace(run_of(trace, kind=Kind.TRAINING), points=points)
    (panel,) = panels(run)
    assert panel.rows == (("0", "0.1"), ("10", "0.8"))


def test_a_run_of_held_out_rows_alone_says_so_instead_of_a_table(rehearsal: Path) -> None:
    run = read_folder(rehearsal / "traces" / "trained.jsonl")
    html = render(run, join(run)).decode()
    assert "Every row played here is held out" in html
    assert "none played" not in html


def test_what_was_learned_is_said_in_words_and_what_hardly_changed_is_counted(
    rehearsal: Path,
) -> None:
    run = read_folder(rehearsal)
    steady = {"behaviour": "x", "meaning": "stays", "before": 1.0, "after": 1.1}
    html = render(replace(run, learned=[*run.learned, steady]), NOTHING).decode()
    assert '<th scope="row">plays a word again</th>\n<td class="how">much less often</td>' in html
    assert "Of 3 behaviours, 1 changed by less than 0.25." in html
    assert '<th scope="row">stays</th>' not in html
    with pytest.raises(InputError, match=r"what .* learned cannot be read"):
        render(replace(run, learned=[{"meaning": "no weights"}]), NOTHING)
