"""A job under faults, then a search of all that it left: no answer, token, key, account id."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mtrl.rehearse.environment import BUCKET
from tests.cloud import Cloud, cloud_starter

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
ACCOUNT = "123456789012"
TOKEN = re.compile(r"sagemaker-api-key-[A-Za-z0-9+/=]{8}")
FAULTS = ("unauthorized", "forbidden", "throttled", "unavailable", "stream-cut", "empty-choices")
KEY_FAULTS = ("credentials-missing", "credentials-revoked")


@dataclass(frozen=True, slots=True)
class Left:
    """What a job left behind."""

    agent_log: str
    service_log: str
    lines: list[dict[str, Any]]
    """The job's trace lines."""
    answers: dict[str, str]
    """By row id."""
    secrets: list[str]
    databases: list[Path]
    objects: list[Path]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    folder = tmp_path_factory.mktemp("leaks")
    options = ["--account", ACCOUNT, "--agent-keys-s", "60", "--timeout-scale", "0.05"]
    for fault in (*FAULTS, *KEY_FAULTS):
        options += ["--fault", f"{fault}=0.15"]
    agent = {"TRACE_LOG": "1", "PYTHONASYNCIODEBUG": "1"}
    start = cloud_starter(folder)
    with start("job", options=options, agent_environment=agent, rotating_keys=True) as cloud:
        cloud.create("job", cloud.training(put_rows(cloud), max_steps="1"))
        view = cloud.finish("job")
        assert view.status == "Completed", view.failure_reason
        lines = cloud.traces("job", "train-00001")
        secrets = [cloud.parts.keys.secret_key]
    base = folder / "job"
    yield Left(
        agent_log=(base / "agent-1.log").read_text(),
        service_log=(base / "service.log").read_text(),
        lines=lines,
        answers={row["id"]: row["answer"] for row in rows()},
        secrets=secrets,
        databases=list((base / "service").glob("*.db")) + list((base / "service").glob("*.sqlite")),
        objects=[path for path in (base / "service" / "objects").rglob("*") if path.is_file()],
    )


def rows() -> list[dict[str, Any]]:
    """Rows whose answers stand nowhere in the sources, so that a log cannot name them by chance."""
    words: set[str] = set()
    for room in ("agent", "mtrl", "rehearsal"):
        for path in (ROOT / room).rglob("*.py"):
            words |= set(re.findall(r"[a-z]+", path.read_text().lower()))
    source = (ROOT / "datasets" / "wordle" / "train.jsonl").read_text().splitlines()
    found = [json.loads(json.loads(line)["prompt"]) for line in source]
    return [row for row in found if row["answer"] not in words][:32]


def put_rows(cloud: Cloud) -> str:
    body = "\n".join(json.dumps({"prompt": json.dumps(row)}) for row in rows())
    cloud.s3.put_object(Bucket=BUCKET, Key="rows.jsonl", Body=body.encode())
    return cloud.environment.uri("rows.jsonl")


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def split_log(log: str) -> tuple[list[dict[str, Any]], str]:
    """The traces of an agent's log, and everything else in it."""
    traces, others = [], []
    for line in log.splitlines():
        if line.startswith('{"task"'):
            traces.append(json.loads(line))
        else:
            others.append(line)
    return traces, "\n".join(others)


def test_the_faults_left_something_to_search(left: Left) -> None:
    traces, others = split_log(left.agent_log)
    assert len(traces) >= 64
    assert "Traceback" in others  # of a credential provider that failed
    assert {trace["summary"]["outcome"] for trace in traces} >= {"lost"}


def test_no_log_line_names_an_answer(left: Left) -> None:
    answers = set(left.answers.values())
    _, others = split_log(left.agent_log)
    assert words_of(others) & answers == set()
    assert words_of(left.service_log) & answers == set()


def test_no_trace_of_a_game_that_was_not_solved_names_its_answer(left: Left) -> None:
    traces, _ = split_log(left.agent_log)
    unsolved = [t for t in traces if not t["summary"]["solved"]]
    assert unsolved
    for trace in unsolved + [x["trace"] for x in left.lines if not x["trace"]["summary"]["solved"]]:
        assert left.answers[trace["row_id"]] not in words_of(json.dumps(trace))


def test_no_log_or_trace_holds_a_token_or_a_key(left: Left) -> None:
    for text in (left.agent_log, left.service_log, json.dumps(left.lines)):
        assert not TOKEN.search(text)
        assert not any(secret in text for secret in left.secrets)
        assert "SecretAccessKey" not in text


def test_no_log_or_trace_of_the_agent_holds_an_account_id(left: Left) -> None:
    assert ACCOUNT not in left.agent_log
    assert ACCOUNT not in left.service_log
    assert ACCOUNT not in json.dumps([line["trace"] for line in left.lines])


def test_nothing_that_the_service_stores_holds_a_token_or_a_key(left: Left) -> None:
    assert left.databases and left.objects
    for path in left.databases:
        with sqlite3.connect(path) as database:
            dump = "\n".join(database.iterdump())
        assert not TOKEN.search(dump), path
        assert not any(secret in dump for secret in left.secrets), path
    for path in left.objects:
        body = path.read_bytes()
        assert b"sagemaker-api-key-" not in body, path
        assert not any(secret.encode() in body for secret in left.secrets), path
