"""`mtrl doctor` as it is typed: exit codes, JSON, widths."""

from __future__ import annotations

import json
from typing import Any

import pytest


def test_a_rehearsal_passes_and_what_it_does_not_offer_is_skipped(operator: Any) -> None:
    found = operator.data("doctor")
    states = {finding["check"]: finding["state"] for finding in found["findings"]}
    assert found["ok"] is True
    assert states["mlflow-app"] == states["package-groups"] == states["model"] == "ok"
    assert states["dataset"] == "warning"  # two batches of rows, ten are recommended
    assert "failed" not in states.values()
    assert states["runtime-ready"] == "skipped"


@pytest.mark.parametrize("width", [80, 160])
def test_a_failing_check_exits_with_1_says_why_and_fits(operator: Any, width: int) -> None:
    record = operator.record(mlflow_app_arn=operator.environment.mlflow_arn + "-gone" * 10)
    operator.write("deployment/outputs.json", json.dumps(record).encode())
    operator.monkeypatch.setattr("mtrl.terminal.PIPE_WIDTH", width)
    result = operator.run("doctor", "--group", "deployment")
    assert result.exit_code == 1
    assert (
        "✗ mlflow-app" in result.output
        and "fix: npx cdk deploy mtrl-test-foundation -c env=test" in result.output
    )
    assert max(map(len, result.output.splitlines())) <= width


def test_only_the_named_checks_are_run(operator: Any) -> None:
    found = operator.data("doctor", "--check", "python", "--check", "region")["findings"]
    assert [finding["check"] for finding in found] == ["python", "region"]


def test_a_deployment_that_was_named_and_is_not_there_is_an_input_error(operator: Any) -> None:
    operator.monkeypatch.delenv("MTRL_DEPLOYMENT")
    result = operator.run("doctor", "--env", "nowhere")
    assert result.exit_code == 2 and "--deployment" in result.output


def test_without_one_named_the_machine_and_the_account_are_looked_at(operator: Any) -> None:
    operator.monkeypatch.delenv("MTRL_DEPLOYMENT")
    found = operator.data("doctor", "--group", "account")
    assert found["deployment"] == "the endpoint offers no CloudFormation."


def test_a_deployment_is_read_from_its_stacks_outputs(operator: Any, aws: Any) -> None:
    operator.monkeypatch.delenv("MTRL_DEPLOYMENT")

    def described(params: dict[str, Any]) -> dict[str, Any]:
        outputs = [
            {"OutputKey": "".join(p.title() for p in key.split("_")), "OutputValue": value}
            for key, value in operator.record().items()
        ]
        stack = {
            "StackName": params["StackName"], "StackStatus": "CREATE_COMPLETE",
            "CreationTime": "2026-12-01T00:00:00Z", "Outputs": outputs,
        }  # fmt: skip
        return {"Stacks": [stack]}

    aws.on("cloudformation", "DescribeStacks", described)
    found = operator.data(
        "doctor", "--env", "test", "--check", "stacks-settled", "--check", "regions"
    )
    assert {f["check"]: f["state"] for f in found["findings"]} == {
        "stacks-settled": "ok",
        "regions": "ok",
    }
