"""Settings: what is wrong with a set is said by the knob's name, before anything is synthesised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mtrl.errors import InputError
from stacks.deployment import settings_from_context
from stacks.settings import ENVIRONMENTS, load_settings

BASE = (ENVIRONMENTS / "dev.toml").read_text()


def load(tmp_path: Path, text: str, **overrides: Any):
    (tmp_path / "test.toml").write_text(text)
    return load_settings("test", overrides, tmp_path)


def refusal(tmp_path: Path, text: str, **overrides: Any) -> str:
    with pytest.raises(InputError) as raised:
        load(tmp_path, text, **overrides)
    return raised.value.message


@pytest.mark.parametrize("path", sorted(ENVIRONMENTS.glob("*.toml")), ids=lambda p: p.stem)
def test_every_named_set_is_valid(path):
    assert load_settings(path.stem).env == path.stem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BASE + "typo = 1", "budget.typo: unknown setting"),
        (BASE.replace("usd = 50", ""), "budget.usd: is missing"),
        (BASE.replace("group_size = 8", "group_size = 99"), "group_size: '99' is outside [2, 32]"),
        (BASE.replace("group_size = 8", "grup_size = 8"), "grup_size: unknown"),
        (BASE.replace("us-east-1", "eu-west-1"), "'eu-west-1' offers no multi-turn RL"),
        (BASE.replace('model = "gpt-oss-20b"', 'model = "gpt-9"'), "'gpt-9' is not one of"),
        (
            BASE.replace('model = "gpt-oss-20b"', 'model = "qwen-3.6-27b"'),
            "training.model: 'qwen-3.6-27b' is not offered in 'us-east-1'; it is in us-west-2",
        ),
        (BASE.replace("accept_eula = true", "accept_eula = false"), "accept_eula"),
        (BASE + "\n[agent]\nidle_timeout_s = 5", "agent.idle_timeout_s"),
        (BASE + "\n[agent]\nreasoning_effort = 'huge'", "REASONING_EFFORT='huge'"),
        (BASE + "\n[agent]\ntask = 'chess'", "task 'chess' is not one of wordle"),
        (BASE + "\n[agent]\nmax_lifetime_s = 60", "agent.max_lifetime_s: 60 s"),
        (BASE + "\n[agent]\nrollout_budget_s = 540", None),
        (BASE + "\n[agent.vpc]\nsubnet_ids = ['subnet-12345678']", "agent.vpc.security_group_ids"),
        ("not toml", "not TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, text, said):
    if said is None:
        load(tmp_path, text)
    else:
        assert said in refusal(tmp_path, text)


def test_the_rollout_budget_must_fit_into_the_jobs_timeout(tmp_path):
    text = BASE.replace("val_every = 10", "val_every = 10\nrollout_timeout = 450")
    assert "agent.rollout_budget_s: 420 s" in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("knob", "value", "said"),
    [
        ("run_id", "a b", "training.run_id"),
        ("force", "maybe", "force"),
        ("account", "12", "account"),
        ("resume_from", "first", "training.resume_from"),
        (
            "start_from",
            "arn:aws:sagemaker:us-west-2:000000000000:model-package/m/1",
            "does not lie in 'us-east-1'",
        ),
        ("retries", "1", "retries: cannot be given with -c"),
    ],
)
def test_a_wrong_option_is_named(tmp_path, knob, value, said):
    assert said in refusal(tmp_path, BASE, **{knob: value})


def test_options_override_the_set(tmp_path):
    settings = load(tmp_path, BASE, run_id="run-9", submit_job="false", force="true")
    assert (settings.training.run_id, settings.training.submit_job) == ("run-9", False)
    assert settings.force


def test_resuming_and_starting_from_a_model_exclude_each_other(tmp_path):
    arn = "arn:aws:sagemaker:us-east-1:000000000000:model-package/m/1"
    assert "exclude each other" in refusal(tmp_path, BASE, resume_from="last", start_from=arn)


def test_a_model_whose_hub_name_is_not_known_needs_its_arn(tmp_path):
    text = BASE.replace('model = "gpt-oss-20b"', 'model = "nova-2-lite"')
    assert "training.base_model: no source states the hub name" in refusal(tmp_path, text)
    arn = "arn:aws:sagemaker:us-east-1:aws:hub-content/SageMakerPublicHub/Model/nova"
    given = text.replace("[training]", f'[training]\nbase_model = "{arn}"')
    assert load(tmp_path, given).base_model_arn == arn


def test_an_unknown_set_lists_the_known_ones():
    with pytest.raises(InputError) as raised:
        load_settings("staging")
    assert "dev, local, prod" in raised.value.remedy


def test_an_unknown_context_option_is_refused_and_cdks_own_are_not(monkeypatch):
    monkeypatch.setenv("CDK_DEFAULT_ACCOUNT", "000000000000")
    context = {"aws:cdk:enable-path-metadata": True, "@aws-cdk/core:x": 1, "env": "prod"}
    assert settings_from_context(context).account == "000000000000"
    with pytest.raises(InputError, match="-c runid: there is no such option"):
        settings_from_context({"runid": "x"})


def test_without_an_account_the_deployment_is_bound_to_none(monkeypatch):
    monkeypatch.delenv("CDK_DEFAULT_ACCOUNT", raising=False)
    assert settings_from_context({}).account is None
