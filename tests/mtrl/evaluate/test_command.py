"""The command from its options to its figures, against a running service and agent."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mtrl.aws import Cloud
from mtrl.cli import main
from mtrl.jobs.reading import summaries

FOUR = ("--limit", "4", "--policy", "base")


def names(prefix: str) -> set[str]:
    """Names of the service's evaluation jobs of one evaluation."""
    found = summaries(Cloud("us-east-1").client("sagemaker"), ["AgentRFTEvaluation"])
    return {summary["JobName"] for summary in found if prefix in summary["JobName"]}


def test_efforts_are_written_into_the_rows_and_recorded_by_the_agent(
    operator: Any, tmp_path: Path
) -> None:
    out = ("--name", "efforts", "--out", str(tmp_path / "e"))
    data = operator.data("evaluate", *FOUR, "--effort", "low", "--effort", "medium", *out)
    assert [cell["conditions"]["effort"] for cell in data["cells"]] == ["low", "medium"]
    assert all(cell["games"] == 4 and not cell["notes"] for cell in data["cells"])
    [difference] = data["differences"]
    assert (difference["factor"], difference["rows"]) == ("effort", 4)
    lines = (tmp_path / "e" / "traces" / "base.jsonl").read_text().splitlines()
    efforts = {json.loads(line)["trace"]["settings"]["reasoning_effort"] for line in lines}
    assert efforts == {"low", "medium"}
    assert json.loads((tmp_path / "e" / "evaluation.json").read_text()) == data


def test_the_same_command_plays_nothing_twice_even_without_its_folder(
    operator: Any, tmp_path: Path
) -> None:
    command = ("evaluate", *FOUR, "--name", "again", "--repeats", "2")
    first = operator.data(*command, "--out", str(tmp_path / "one"))
    made = names("again")
    assert len(made) == 1
    assert operator.data(*command, "--out", str(tmp_path / "one")) == first
    assert operator.data(*command, "--out", str(tmp_path / "two")) == first
    assert names("again") == made
    [cell] = first["cells"]
    assert cell["games"] == 8
    assert set(cell["pass_at"]) == {"1", "2"}


def test_a_broken_off_evaluation_goes_on_with_the_job_it_had_made(
    operator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("evaluate", *FOUR, "--name", "broken", "--out", str(tmp_path / "e"))

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mtrl.evaluate.run.finished", interrupted)
        assert CliRunner().invoke(main, list(command)).exit_code != 0
    ledger = json.loads((tmp_path / "e" / "ledger.json").read_text())
    assert [cell["status"] for cell in ledger["cells"]] == ["running"]
    data = operator.data(*command)
    assert [cell["job"] for cell in data["cells"]] == [ledger["cells"][0]["job"]]
    assert names("broken") == {ledger["cells"][0]["job"]}


def test_cells_of_several_runs_stand_in_one_table_and_are_compared_on_demand(
    operator: Any, tmp_path: Path
) -> None:
    shared = ("--policy", "base", "--name", "more", "--out", str(tmp_path / "e"))
    operator.data("evaluate", "--limit", "4", *shared)
    data = operator.data("evaluate", "--limit", "4", "--temperature", "0", *shared)
    assert [difference["factor"] for difference in data["differences"]] == ["temperature"]
    data = operator.data("evaluate", "--limit", "5", *shared)
    assert len(data["cells"]) == 3
    assert len(data["differences"]) == 1
    first, _, other_rows = (cell["id"] for cell in data["cells"])

    def refusal(one: str, other: str) -> str:
        result = operator.run("evaluate", "--limit", "4", *shared, "--compare", one, other)
        assert result.exit_code == 2
        return result.output

    assert "differ in nothing" in refusal(first, first)
    assert "differ in rows" in refusal(first, other_rows)
    assert "3 cells begin with it" in refusal(first, "base")
    assert "no completed cell begins with it" in refusal(first, "trained")


def test_a_package_that_does_not_exist_is_refused_by_name(operator: Any, tmp_path: Path) -> None:
    gone = f"{operator.environment.output_group_arn}/99".replace("package-group/", "package/")
    command = ("evaluate", "--policy", f"gone={gone}", "--limit", "4", "--out", str(tmp_path))
    result = operator.run(*command)
    assert result.exit_code == 2
    assert gone in result.output


@pytest.mark.slow
def test_players_need_no_deployment_and_no_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "MTRL_DEPLOYMENT", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    command = ["evaluate", "--policy", "random", "--policy", "best=solver", "--limit", "6"]
    result = CliRunner().invoke(main, [*command, "--out", str(tmp_path / "e"), "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    rates = {cell["title"]: cell["solve_rate"] for cell in data["cells"]}
    assert rates["best"] == 1.0 > rates["random"]
    assert [cell["usd_per_game"] for cell in data["cells"]] == [0.0, 0.0]
    [difference] = data["differences"]
    assert difference["p"] < 0.05
    shown = CliRunner().invoke(main, [*command, "--out", str(tmp_path / "e")])
    assert "95% interval" in shown.output
    assert "random -> best" in shown.output


def test_a_dry_run_shows_the_cells_and_plays_nothing(operator: Any, tmp_path: Path) -> None:
    command = ("evaluate", *FOUR, "--effort", "low", "--name", "dry", "--dry-run")
    result = operator.run(*command, "--out", str(tmp_path / "e"))
    assert "base (T 1, low effort): 4 games" in result.output
    assert names("dry") == set()
    assert not (tmp_path / "e").exists()


def test_a_deployment_that_trained_nothing_has_no_trained_model(
    operator: Any, tmp_path: Path
) -> None:
    untrained = operator.record(deployment="mtrl-untrained")
    operator.write("deployment/outputs.json", json.dumps(untrained).encode())
    command = ("evaluate", "--limit", "8", "--policy", "trained", "--out", str(tmp_path / "e"))
    result = operator.run(*command)
    assert result.exit_code == 2
    assert "no trained model" in result.output
    assert not (tmp_path / "e" / "ledger.json").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--policy", "besst"], "--policy besst"),
        (["--policy", "A=base"], "label"),
        (["--policy", "x=base", "--policy", "x=solver"], "two policies"),
        (["--hint", "two\nlines"], "--hint"),
        (["--rows", "none.jsonl"], "none.jsonl"),
        (["--set", "temperature=1"], "use --temperature"),
        (["--set", "sampling_max_tokens=1"], "outside"),
        (["--set", "speed=9"], "no such name"),
        (["--name", "no spaces"], "--name"),
        (["--task", "chess"], "--task chess"),
        (["--effort", "huge"], "--effort"),
    ],
)
def test_bad_input_is_named_and_nothing_is_played(
    operator: Any, options: list[str], named: str, tmp_path: Path
) -> None:
    result = operator.run("evaluate", "--limit", "8", "--out", str(tmp_path / "e"), *options)
    assert result.exit_code == 2
    assert named in result.output
    assert not (tmp_path / "e" / "ledger.json").exists()


def test_a_row_that_cannot_carry_an_effort_is_named(operator: Any, tmp_path: Path) -> None:
    (tmp_path / "free.csv").write_text("prompt\nWhat is 2 + 2?\n")
    result = operator.run(
        "evaluate", "--rows", str(tmp_path / "free.csv"), "--effort", "low", "--out", str(tmp_path)
    )
    assert result.exit_code == 2
    assert "row 1" in result.output


@pytest.mark.slow
def test_the_ladder_leads_from_chance_to_the_trained_policy(
    own_operator: Any, tmp_path: Path
) -> None:
    with own_operator() as operator:
        operator.finished(operator.train("--set", "max_steps=6", "--set", "group_size=6"))
        command = ("evaluate", "--ladder", "--limit", "32", "--out", str(tmp_path / "ladder"))
        data = operator.data(*command)
        kinds = [(c["policy"]["label"], bool(c["conditions"]["hint"])) for c in data["cells"]]
        assert kinds == [
            ("random", False),
            ("consistent", False),
            ("solver", False),
            ("base", False),
            ("base", True),
            ("trained", False),
        ]
        rates = [cell["solve_rate"] for cell in data["cells"]]
        assert rates[2] == 1.0
        assert rates[5] > rates[3]
        costs = [cell["usd_per_game"] for cell in data["cells"]]
        assert costs[:3] == [0.0] * 3
        assert all(cost > 0 for cost in costs[3:])
        factors = [difference["factor"] for difference in data["differences"]]
        assert factors == ["policy", "policy", "policy", "hint", "policy"]


@pytest.mark.slow
def test_a_model_behind_any_openai_compatible_server_is_measured(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            call = {"name": "guess_word", "arguments": '{"guess": "crane"}'}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": call}],
            }
            body = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        policy = f"vllm=http://127.0.0.1:{server.server_port}/v1#some-model"
        command = ["evaluate", "--policy", policy, "--effort", "low", "--limit", "3", "--json"]
        result = CliRunner().invoke(main, [*command, "--out", str(tmp_path / "e")])
        server.shutdown()
    assert result.exit_code == 0, result.output
    [cell] = json.loads(result.stdout)["cells"]
    assert (cell["games"], cell["solve_rate"], cell["usd_per_game"]) == (3, 0.0, None)
    assert {(request["model"], request["reasoning_effort"]) for request in asked} == {
        ("some-model", "low")
    }
