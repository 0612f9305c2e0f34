"""Environment settings: defaults, rules, and messages that name the variable."""

from __future__ import annotations

import pytest

from agent.settings import REPORT_RESERVE_S, SERVICE_TIMEOUT_S, Settings, SettingsError
from agent.settings import read_settings as read


def test_an_empty_environment_gives_the_defaults() -> None:
    assert read({}) == Settings()
    assert Settings().rollout_budget_s == 420


def test_every_setting_is_read() -> None:
    settings = read(
        {
            "AGENT_TASK": "other",
            "REASONING_EFFORT": "low",
            "REASONING_PROMPT_HINT": "Reasoning: low",
            "ROLLOUT_BUDGET_S": "90",
            "MAX_POLICY_CALLS": "5",
            "POLICY_STREAM": "1",
            "RFT_RUNTIME_ENDPOINT": "http://127.0.0.1:9000",
            "AWS_REGION": "us-west-2",
            "AWS_CA_BUNDLE": __file__,
            "TRACE_LOG": "true",
            "PORT": "9090",
        }
    )
    assert settings == Settings(
        task="other",
        reasoning_effort="low",
        prompt_hint="Reasoning: low",
        rollout_budget_s=90,
        max_policy_calls=5,
        policy_stream=True,
        runtime_endpoint="http://127.0.0.1:9000",
        region="us-west-2",
        ca_bundle=__file__,
        trace_log=True,
        port=9090,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REASONING_EFFORT", "extreme"),
        ("REASONING_PROMPT_HINT", "two\nlines"),
        ("REASONING_PROMPT_HINT", "x" * 501),
        ("ROLLOUT_BUDGET_S", "0"),
        ("ROLLOUT_BUDGET_S", "ten"),
        ("ROLLOUT_BUDGET_S", "nan"),
        ("ROLLOUT_BUDGET_S", str(SERVICE_TIMEOUT_S - REPORT_RESERVE_S + 1)),
        ("MAX_POLICY_CALLS", "1.5"),
        ("POLICY_STREAM", "maybe"),
        ("RFT_RUNTIME_ENDPOINT", "runtime.example"),
        ("PORT", "65536"),
        ("AWS_CA_BUNDLE", "/no/such/file.pem"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        read({name: value})
