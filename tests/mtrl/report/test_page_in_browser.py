"""The page in a real browser: it opens clean, replays by key and by click, and fits a phone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

from agent.trace import Move, Trace, Turn
from mtrl.report.answers import NOTHING, join
from mtrl.report.folder import read_folder
from mtrl.report.games import GameSet, Kind, Sampling, read_line
from mtrl.report.page import render
from mtrl.report.run import Run

pytestmark = pytest.mark.slow

PHONE, DESK = 400, 1400
HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no chromium: CI installs Debian's package `chromium`")
        pytest.skip("no chromium on the PATH (Debian's package `chromium`)")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=found,
            args=["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
                  "--disable-background-networking", "--disable-component-update"],
        )  # fmt: skip
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a file offline; whatever it says or asks for beyond itself fails the test."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def open_file(path: Path, width: int = DESK, **options: Any) -> Page:
        own = path.as_uri()

        def asked(request: Request) -> None:
            if request.url.split("#")[0] != own:
                faults.append(f"request: {request.url}")

        context = browser.new_context(
            viewport={"width": width, "height": 900}, offline=True, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("request", asked)
        page.goto(own)
        page.wait_for_selector("#player:not([hidden])")
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture(scope="module")
def report(rehearsal: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a small rehearsal."""
    run = read_folder(rehearsal)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(render(run, join(run)))
    return path


def written(tmp_path: Path, *traces: Trace) -> Path:
    games = tuple(read_line(trace.to_json())[0] for trace in traces)
    sets = (GameSet(Kind.EVALUATION, "base", None, games[0].sampling, games),)
    run = Run("title", "Traces", traces[0].task, sets, 1.0, "gpt-oss-20b", "us-east-1")
    path = tmp_path / "report.html"
    path.write_bytes(render(run, NOTHING))
    return path


def open_game(page: Page, find: str) -> None:
    page.get_by_label("Find").fill(find)
    expect(page.locator("#list li")).to_have_count(1)
    expect(page.locator("#facts .id")).to_contain_text(find)


def words_on_board(page: Page) -> list[str]:
    return [row.replace("\n", "") for row in page.locator("#board button.word").all_inner_texts()]


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_without_an_error_and_fits(
    visit: Callable[..., Page], report: Path, width: int, scheme: str
) -> None:
    page = visit(report, width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    red = int(page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]"))
    assert (red < 60) == (scheme == "dark")
    expect(page.locator("svg.chart")).to_have_count(8)


def test_the_replay_steps_by_key_and_by_click(visit: Callable[..., Page], report: Path) -> None:
    page = visit(report)
    open_game(page, "trained-0")
    assert len(words_on_board(page)) == 2
    page.locator("#stage").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#turn")).to_have_text("Turn 1 of 2")
    assert words_on_board(page) == ["CRANE"]
    expect(page.locator("#messages")).to_contain_text('{"guess": "crane"}')
    expect(page.locator("#messages")).to_contain_text("Attempts left: 5")
    expect(page.locator(".parts")).to_contain_text(["opener"])
    page.keyboard.press("ArrowRight")
    expect(page.locator("#turn")).to_have_text("Turn 2 of 2")
    page.get_by_role("button", name="Turn 1", exact=True).click()
    expect(page.locator("#turn")).to_have_text("Turn 1 of 2")
    page.get_by_role("button", name="Next turn").click()
    expect(page.locator("#turn")).to_have_text("Turn 2 of 2")
    expect(page.get_by_role("button", name="Next turn")).to_be_disabled()
    page.locator("#board button.word").first.click()
    expect(page.locator("#turn")).to_have_text("Turn 1 of 2")
    page.keyboard.press("End")
    expect(page.locator("#turn")).to_have_text("Turn 2 of 2")


def test_tiles_say_by_letter_sign_and_words_what_they_say_by_colour(
    visit: Callable[..., Page], tmp_path: Path, play: Callable[..., Trace]
) -> None:
    row = {"prompt": "Play.", "answer": "crane", "id": "x"}
    page = visit(written(tmp_path, play(row, ["crate", "caner"])))
    line = page.locator("#board button.word").first
    expect(line).to_have_attribute(
        "aria-label",
        "Guess 1: C right place, R right place, A right place, T no further copy in the word, "
        "E right place",
    )
    signs = page.evaluate(
        "[...document.querySelectorAll('#board .tile[data-mark]')].slice(5)"
        ".map(tile => getComputedStyle(tile, '::after').content)"
    )
    assert signs == ['"✓"', '"↔"', '"↔"', '"↔"', '"↔"']


def test_games_are_chosen_by_arrow_keys_in_the_list(
    visit: Callable[..., Page], report: Path
) -> None:
    page = visit(report)
    chosen = page.locator('#list li[aria-selected="true"]')
    chosen.focus()
    first = chosen.inner_text()
    page.keyboard.press("ArrowDown")
    expect(chosen).not_to_have_text(first)
    assert page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
    page.keyboard.press("ArrowUp")
    expect(chosen).to_have_text(first, use_inner_text=True)
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "stage"


def test_everything_is_reached_by_the_tab_key_with_a_visible_focus(
    visit: Callable[..., Page], report: Path
) -> None:
    page = visit(report)
    reached, unseen = set(), []
    for _ in range(90):
        page.keyboard.press("Tab")
        at = page.evaluate(
            "(() => { const e = document.activeElement, s = getComputedStyle(e);"
            " return [e.id || e.name || e.tagName, s.outlineStyle !== 'none', e.tagName]; })()"
        )
        reached.add(at[0])
        if at[2] != "BODY" and not at[1]:
            unseen.append(at)
    assert {"theme", "set", "result", "fault", "order", "find", "previous"} <= reached
    assert not unseen


def test_an_error_cluster_leads_to_its_games(visit: Callable[..., Page], report: Path) -> None:
    page = visit(report)
    row = page.locator(".faults tr", has_text="Repeat")
    row.get_by_role("link").first.click()
    expect(page.locator("#found")).to_have_text("5 of 48 games")
    assert page.locator("select[name=fault]").input_value() == "repeat"


def test_the_theme_button_overrules_the_system(visit: Callable[..., Page], report: Path) -> None:
    page = visit(report, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    button = page.locator("#theme")
    expect(button).to_have_accessible_name("Switch to the light theme")
    button.press("Enter")
    assert page.evaluate(background) != dark
    expect(button).to_have_accessible_name("Switch to the dark theme")


def test_nothing_moves_for_those_who_ask_for_calm(visit: Callable[..., Page], report: Path) -> None:
    still = visit(report, reduced_motion="reduce")
    moving = visit(report, reduced_motion="no-preference")
    running = "getComputedStyle(document.querySelector('.tile.new')).animationName"
    assert still.evaluate(running) == "none"
    assert moving.evaluate(running) == "reveal"


def test_what_a_model_wrote_is_shown_as_text(
    visit: Callable[..., Page],
    tmp_path: Path,
    play: Callable[..., Trace],
    rows: Callable[[str], list[dict[str, Any]]],
) -> None:
    row = {**rows("validation")[0], "id": HOSTILE}
    trace = play(row, ["crane"], text=HOSTILE, reasoning=HOSTILE, trajectory=HOSTILE)
    page = visit(written(tmp_path, trace))
    expect(page.locator("#messages")).to_contain_text(HOSTILE)
    expect(page.locator("#list")).to_contain_text(HOSTILE)
    assert page.locator("img").count() == 0


def test_a_linked_game_is_opened(visit: Callable[..., Page], report: Path) -> None:
    page = visit(report)
    open_game(page, "trained-3")
    link = page.url.split("#")[1]
    assert link == "game-trained-3"
    page.reload()
    page.wait_for_selector("#board button")
    expect(page.locator("#facts .id")).to_have_text("trained-3")


def test_a_task_without_tiles_is_replayed_as_moves_and_answers(
    visit: Callable[..., Page], tmp_path: Path
) -> None:
    moves = (Move("walk", {"to": "north"}, "You see a door."), Move("open", {}, "It opens."))
    turns = tuple(Turn("", "Hm.", (move,), "tool_calls", 10, 5, 0.1) for move in moves)
    parts = {"total": 1.0, "turns": [{"score": 0.25}, {"score": 0.75}]}
    summary = {"outcome": "escaped", "turns": 2, "reward_parts": parts}
    trace = Trace("maze", "m1", "job", "walk-1", {"temperature": 1.0}, turns, "done", 1.0,
                  summary, 1.0)  # fmt: skip
    page = visit(written(tmp_path, trace))
    expect(page.locator("#board")).to_be_hidden()
    expect(page.locator("#messages")).to_contain_text("It opens.")
    expect(page.locator(".parts").first).to_contain_text("+0.750")
    page.get_by_role("button", name="Previous turn").click()
    expect(page.locator("#messages")).to_contain_text("You see a door.")


def test_a_run_without_a_trace_says_that_there_is_nothing_to_replay(
    browser: Browser, tmp_path: Path, play: Callable[..., Trace]
) -> None:
    row = {"prompt": "Play.", "answer": "crane", "id": "x"}
    game = replace(read_line(play(row, ["crane"]).to_json())[0], trace=None)
    sets = (GameSet(Kind.EVALUATION, "base", None, Sampling(), (game,)),)
    path = tmp_path / "report.html"
    run = Run("title", "Traces", "wordle", sets, 1.0, "gpt-oss-20b", "us-east-1")
    path.write_bytes(render(run, NOTHING))
    page = browser.new_page()
    page.goto(path.as_uri())
    expect(page.locator("#unreadable")).to_have_text(
        "There is nothing to replay: no games with a trace."
    )
    page.close()
