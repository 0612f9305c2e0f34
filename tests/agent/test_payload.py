"""The rollout payload: every spelling is read, every fault is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.payload import InferenceParams, PayloadError, parse_payload

ARN = "arn:aws:sagemaker:us-west-2:111122223333:job/x"


def payload(**extra: Any) -> dict[str, Any]:
    return {"prompt": "row", "metadata": {"jobArn": ARN, "rolloutId": "t-1"}, **extra}


def test_the_services_payload_is_read() -> None:
    read = parse_payload(
        payload(inferenceParams={"temperature": 0.7, "topP": 0.9, "maxTokens": 4096})
    )
    assert read.prompt == "row"
    assert read.trajectory.job_arn == ARN
    assert read.trajectory.trajectory_id == "t-1"
    assert read.trajectory.region == "us-west-2"
    assert read.trajectory.endpoint is None
    assert read.inference == InferenceParams(0.7, 0.9, 4096)


def test_the_sdks_snake_case_payload_is_read() -> None:
    read = parse_payload(
        {
            "instance": {"prompt": "row", "level": 3},
            "metadata": {
                "job_arn": ARN,
                "trajectory_id": "t-2",
                "endpoint": "https://runtime.example/base",
                "region": "us-east-1",
            },
            "inference_params": {"temperature": 1, "top_p": 1.0, "max_tokens": 512},
            "model_name": "m",
            "model_endpoint": "e",
        }
    )
    assert (read.prompt, read.trajectory.trajectory_id) == ("row", "t-2")
    assert read.trajectory.region == "us-east-1"
    assert read.inference.as_request() == {"temperature": 1, "top_p": 1.0, "max_tokens": 512}


def test_an_instance_without_a_prompt_is_the_row_itself() -> None:
    raw = {"instance": {"target": 3}, "metadata": payload()["metadata"]}
    assert json.loads(parse_payload(raw).prompt) == {"target": 3}


def test_trajectory_id_wins_over_rollout_id() -> None:
    raw = payload(metadata={"jobArn": ARN, "rolloutId": "r", "trajectoryId": "t"})
    assert parse_payload(raw).trajectory.trajectory_id == "t"


def test_unknown_keys_are_ignored_and_nulls_count_as_absent() -> None:
    raw = payload(inferenceParams={"temperature": None, "seed": 1}, novelty=True)
    assert parse_payload(raw).inference.as_request() == {}


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ([], "payload"),
        (None, "payload"),
        ({"prompt": "x"}, "metadata"),
        (payload(metadata={"rolloutId": "t"}), "metadata.jobArn"),
        (payload(metadata={"jobArn": "job", "rolloutId": "t"}), "metadata.jobArn"),
        (payload(metadata={"jobArn": ARN}), "metadata.trajectoryId"),
        (payload(metadata={"jobArn": ARN, "rolloutId": "a\r\nX: y"}), "metadata.trajectoryId"),
        (payload(metadata={"jobArn": ARN, "rolloutId": 7}), "metadata.trajectoryId"),
        (
            payload(metadata={"jobArn": ARN, "rolloutId": "t", "endpoint": "file:///etc"}),
            "metadata.endpoint",
        ),
        (
            payload(metadata={"jobArn": ARN, "rolloutId": "t", "region": "mars!"}),
            "metadata.region",
        ),
        (payload(prompt=""), "prompt"),
        (payload(prompt=5), "prompt"),
        (payload(prompt="\ud800"), "prompt"),
        (payload(inferenceParams=[1]), "inferenceParams"),
        (payload(inferenceParams={"temperature": "hot"}), "inferenceParams.temperature"),
        (payload(inferenceParams={"temperature": 2.1}), "inferenceParams.temperature"),
        (payload(inferenceParams={"temperature": float("nan")}), "inferenceParams.temperature"),
        (payload(inferenceParams={"topP": True}), "inferenceParams.topP"),
        (payload(inferenceParams={"maxTokens": 0}), "inferenceParams.maxTokens"),
        (payload(inferenceParams={"maxTokens": 1.5}), "inferenceParams.maxTokens"),
        (payload(inferenceParams={"maxTokens": 10**400}), "inferenceParams.maxTokens"),
    ],
)
def test_a_fault_is_named_by_its_field(raw: Any, field: str) -> None:
    with pytest.raises(PayloadError) as caught:
        parse_payload(raw)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


def test_a_fault_beside_the_metadata_still_says_whom_to_report_for() -> None:
    with pytest.raises(PayloadError) as caught:
        parse_payload(payload(prompt=None))
    assert caught.value.trajectory is not None
    assert caught.value.trajectory.trajectory_id == "t-1"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)
NAMES = st.sampled_from(
    ["prompt", "instance", "metadata", "inferenceParams", "inference_params", "model_name"]
)
METADATA = st.dictionaries(
    st.sampled_from(["jobArn", "job_arn", "trajectoryId", "rolloutId", "endpoint", "region"]), JSON
)


@given(st.dictionaries(NAMES, JSON | METADATA) | JSON)
def test_any_json_is_read_or_refused_by_name(raw: Any) -> None:
    try:
        read = parse_payload(raw)
    except PayloadError as error:
        assert str(error).startswith(error.field)
    else:
        assert read.prompt.strip()
        assert read.trajectory.trajectory_id.isprintable()
