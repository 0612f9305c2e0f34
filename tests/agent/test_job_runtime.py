"""The Job Runtime client: the SDK's bytes, retries that end, and answers that mean 'done'."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Callable
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.credentials import CredentialsError, Snapshot, TokenCache
from agent.job_runtime import (
    AUTH_ATTEMPTS,
    BACKOFF_BASE_S,
    BACKOFF_CAP_S,
    CallFailedError,
    CallRefusedError,
    CallTimeoutError,
    Deadline,
    JobRuntime,
    RuntimeCallError,
    TrajectoryUnknownError,
    resolve,
    retry_after,
)
from agent.payload import PayloadError, Trajectory
from agent.settings import Settings

JOB = "arn:aws:sagemaker:us-east-1:111122223333:job/x"
BUDGET_S = 60.0


@pytest.fixture
def report(endpoint: str, runtime: JobRuntime, clock: Any) -> Callable[..., Any]:
    """Run `check(runtime, trajectory, deadline)`; by default, report a reward of 0.5."""
    trajectory = Trajectory(JOB, "t-1", endpoint, "us-east-1")

    async def reward(runtime: JobRuntime, trajectory: Trajectory, deadline: Deadline) -> bool:
        return await runtime.update_reward(trajectory, 0.5, deadline)

    def run(check: Any = reward, using: JobRuntime = runtime) -> Any:
        return asyncio.run(check(using, trajectory, Deadline(clock.now + BUDGET_S, clock)))

    return run


async def complete(runtime: JobRuntime, trajectory: Trajectory, deadline: Deadline) -> bool:
    return await runtime.complete(trajectory, "ready", deadline)


def test_reports_are_the_sdks_bytes(report: Any, fake: Any) -> None:
    async def both(runtime: JobRuntime, trajectory: Trajectory, deadline: Deadline) -> None:
        assert await runtime.complete(trajectory, "ready", deadline)
        assert await runtime.update_reward(trajectory, [0.25, -1.0], deadline)

    report(both)
    completion, reward = fake.calls
    identity = {"JobArn": JOB, "TrajectoryId": "t-1"}
    assert completion.path == "/complete-rollout"
    assert completion.raw == json.dumps({**identity, "Status": "ready"}).encode()
    assert reward.path == "/update-reward"
    assert reward.raw == json.dumps({**identity, "Rewards": [0.25, -1.0]}).encode()
    assert reward.headers["content-type"] == "application/json"
    assert reward.headers["authorization"].startswith("Bearer sagemaker-api-key-")


def test_one_number_is_a_list_of_one(report: Any, fake: Any) -> None:
    report()
    assert fake.calls[0].body["Rewards"] == [0.5]


@pytest.mark.parametrize("reward", [[], float("nan"), [1.0, float("inf")]])
def test_a_reward_that_is_no_number_is_not_sent(report: Any, fake: Any, reward: Any) -> None:
    with pytest.raises(ValueError, match="finite"):
        report(lambda runtime, t, deadline: runtime.update_reward(t, reward, deadline))
    assert fake.calls == []


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504])
def test_a_fault_that_may_pass_is_retried(report: Any, fake: Any, kit: Any, status: int) -> None:
    fake.fault(kit.REWARD, *[kit.Answer(status)] * 3)
    assert report()
    assert fake.trajectories["t-1"].rewards == [[0.5]]
    assert len(fake.calls) == 4


@pytest.mark.parametrize(
    "answer",
    [
        {"headers": {"x-amzn-errortype": "ThrottlingException:http://internal.amazon.com/"}},
        {"body": b'{"__type": "InternalServiceException", "message": "oops"}'},
    ],
)
def test_a_passing_fault_that_comes_as_400_is_retried(
    report: Any, fake: Any, kit: Any, answer: dict[str, Any]
) -> None:
    fake.fault(kit.REWARD, kit.Answer(400, **answer))
    assert report()
    assert len(fake.calls) == 2


@pytest.mark.parametrize("cut", [-1, 0, 1])
def test_a_broken_connection_is_retried(report: Any, fake: Any, kit: Any, cut: int) -> None:
    fake.fault(kit.REWARD, kit.Answer(cut_after=cut, applied=False))
    assert report()
    assert fake.trajectories["t-1"].rewards == [[0.5]]


def test_a_lost_acknowledgement_takes_effect_once(report: Any, fake: Any, kit: Any) -> None:
    fake.fault(kit.REWARD, kit.DROP)  # applied, and the reply lost
    assert report() is False  # the retry learns that it is done
    assert fake.trajectories["t-1"].rewards == [[0.5]]


@pytest.mark.parametrize("status", [400, 409, 500])
@pytest.mark.parametrize(
    "words", ["trajectory not in valid status", "Cannot transition trajectory from ready"]
)
def test_already_processed_is_done_whatever_its_status(
    report: Any, fake: Any, kit: Any, status: int, words: str
) -> None:
    fake.fault(kit.COMPLETE, kit.Answer(status, json.dumps({"message": words}).encode()))
    assert report(complete) is False
    assert len(fake.calls) == 1


def test_an_unknown_trajectory_is_a_reason_and_not_retried(report: Any, fake: Any) -> None:
    fake.unknown.add("t-1")
    with pytest.raises(TrajectoryUnknownError, match="does not know this trajectory"):
        report()
    assert len(fake.calls) == 1


def test_a_refused_request_is_not_repeated(report: Any, fake: Any, kit: Any) -> None:
    fake.fault(kit.REWARD, kit.Answer(400, b'{"message": "Rewards must be numbers"}'))
    with pytest.raises(CallRefusedError, match=r"400.*Rewards must be numbers") as caught:
        report()
    assert caught.value.status == 400
    assert len(fake.calls) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_token_is_replaced_at_once(
    report: Any, fake: Any, kit: Any, clock: Any, status: int
) -> None:
    tokens = rotating_tokens()
    runtime = JobRuntime(tokens, clock=clock, sleep=clock.sleep)
    fake.fault(kit.REWARD, kit.Answer(status))
    assert report(using=runtime)
    first, second = (call.headers["authorization"] for call in fake.calls)
    assert first != second
    assert clock.slept == [0.0]


def rotating_tokens() -> TokenCache:
    """Every mint uses the next key, as if the role's credentials had rotated."""
    from botocore.credentials import ReadOnlyCredentials

    keys = iter(ReadOnlyCredentials(f"AKID{n}", "secret", "token") for n in range(1000))
    return TokenCache(lambda: Snapshot(next(keys), None))


def test_a_token_refused_for_good_ends_with_the_reason(report: Any, fake: Any, kit: Any) -> None:
    fake.always = lambda _: kit.Answer(403, b'{"message": "not authorized to UpdateReward"}')
    with pytest.raises(CallRefusedError, match=r"403.*not authorized"):
        report()
    assert len(fake.calls) == AUTH_ATTEMPTS


def test_the_server_decides_how_long_to_wait(report: Any, fake: Any, kit: Any, clock: Any) -> None:
    fake.fault(kit.REWARD, kit.Answer(429, headers={"Retry-After": "7"}))
    assert report()
    assert 7 <= clock.slept[0] <= 7 + BACKOFF_BASE_S


def test_a_wait_past_the_deadline_ends_the_call_at_once(
    report: Any, fake: Any, kit: Any, clock: Any
) -> None:
    fake.always = lambda _: kit.Answer(503, headers={"Retry-After": "3600"})
    with pytest.raises(CallFailedError, match=r"gave up .* 503"):
        report()
    assert clock.slept == []


def test_retries_end_at_the_deadline(report: Any, fake: Any, kit: Any, clock: Any) -> None:
    fake.always = lambda _: kit.Answer(500, b"sorry")
    with pytest.raises(CallFailedError, match="500 sorry"):
        report()
    assert sum(clock.slept) <= BUDGET_S
    assert all(0 <= wait <= BACKOFF_CAP_S for wait in clock.slept)
    assert len(fake.calls) > 5


def test_no_deadline_left_means_no_attempt(report: Any, fake: Any) -> None:
    async def late(runtime: JobRuntime, trajectory: Trajectory, deadline: Deadline) -> None:
        await runtime.update_reward(trajectory, 1.0, deadline.within(0))

    with pytest.raises(CallTimeoutError):
        report(late)
    assert fake.calls == []


def test_a_server_that_says_nothing_is_left_at_the_deadline(
    endpoint: str, fake: Any, kit: Any
) -> None:
    async def silent(_: Any) -> None:
        await asyncio.sleep(30)

    fake.always = silent

    async def main() -> None:
        runtime = JobRuntime(kit.static_tokens())
        trajectory = Trajectory(JOB, "t-1", endpoint, "us-east-1")
        deadline = Deadline(runtime.clock() + 0.2)
        with pytest.raises(CallTimeoutError, match="no answer before the deadline"):
            await runtime.update_reward(trajectory, 1.0, deadline)

    asyncio.run(main())


def test_an_attempt_that_hangs_is_given_up_and_repeated(
    report: Any, fake: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_: Any) -> None:
        await asyncio.sleep(30)

    monkeypatch.setattr("agent.job_runtime.REPORT_TIMEOUT_S", 0.2)
    fake.fault(kit.REWARD, hang)
    assert report()
    assert len(fake.calls) == 2


def test_a_service_that_is_down_for_a_while_is_waited_for(fake: Any, kit: Any, clock: Any) -> None:
    async def main() -> None:
        server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        down_until = clock.now + 10

        async def sleep(seconds: float) -> None:
            nonlocal server
            await clock.sleep(seconds)
            if clock.now >= down_until and not server.is_serving():
                server = await asyncio.start_server(fake.serve, "127.0.0.1", port)

        runtime = JobRuntime(kit.static_tokens(), clock=clock, sleep=sleep)
        trajectory = Trajectory(JOB, "t-1", f"http://127.0.0.1:{port}", "us-east-1")
        deadline = Deadline(clock.now + BUDGET_S, clock)
        assert await runtime.update_reward(trajectory, 0.5, deadline)
        runtime.close()
        server.close()

    asyncio.run(main())
    assert fake.trajectories["t-1"].rewards == [[0.5]]


def test_credentials_that_come_late_are_waited_for(
    report: Any, fake: Any, clock: Any, kit: Any
) -> None:
    left = [3]

    def snapshot() -> Snapshot:
        if left[0]:
            left[0] -= 1
            raise CredentialsError("no AWS credentials found by the provider chain")
        return kit.static_tokens()._snapshot()

    assert report(using=JobRuntime(TokenCache(snapshot), clock=clock, sleep=clock.sleep))


def test_credentials_that_never_come_are_the_reason(report: Any, clock: Any) -> None:
    def snapshot() -> Snapshot:
        raise CredentialsError("no AWS credentials found by the provider chain")

    runtime = JobRuntime(TokenCache(snapshot), clock=clock, sleep=clock.sleep)
    with pytest.raises(CallFailedError, match="no AWS credentials"):
        report(using=runtime)


def test_an_error_repeats_neither_token_nor_account(report: Any, fake: Any, kit: Any) -> None:
    fake.always = lambda call: kit.Answer(
        400, f"arn:aws:sts::111122223333:role/x sent {call.headers['authorization']}".encode()
    )
    with pytest.raises(RuntimeCallError, match=r"arn:aws:sts::\[account\]:role/x") as caught:
        report()
    assert "sagemaker-api-key" not in str(caught.value)


def test_jitter_differs_between_processes_with_the_same_seed(kit: Any) -> None:
    import random

    random.seed(1)
    first = JobRuntime(kit.static_tokens())._backoff(5, None)
    random.seed(1)
    second = JobRuntime(kit.static_tokens())._backoff(5, None)
    assert first != second


@given(st.integers(0, 200), st.none() | st.floats(0, 1e4))
def test_a_wait_is_never_shorter_than_asked_nor_longer_than_the_cap(
    failures: int, asked: float | None
) -> None:
    wait = JobRuntime(TokenCache(lambda: pytest.fail("unused")))._backoff(failures, asked)
    if asked is None:
        assert 0 <= wait <= BACKOFF_CAP_S
    else:
        assert asked <= wait <= asked + BACKOFF_BASE_S


NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("12", 12),
        (" 12 ", 12),
        ("soon", None),
        ("-5", None),
        (format_datetime(NOW + datetime.timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - datetime.timedelta(seconds=90), usegmt=True), 0),
    ],
)
def test_retry_after_is_read_in_both_forms(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, now=NOW.timestamp) == seconds


@given(st.text(max_size=30))
def test_any_retry_after_is_a_time_or_nothing(value: str) -> None:
    seconds = retry_after(value)
    assert seconds is None or seconds >= 0


def test_the_payloads_endpoint_wins_then_the_settings_then_the_regions() -> None:
    bare = Trajectory(JOB, "t", None, "us-west-2")
    named = Trajectory(JOB, "t", "http://runtime:1/", "us-west-2")
    own = Settings(runtime_endpoint="http://own:2")
    assert resolve(named, own).endpoint == "http://runtime:1"
    assert resolve(bare, own).endpoint == "http://own:2"
    assert resolve(bare, Settings()).endpoint == ("https://job-runtime.sagemaker.us-west-2.api.aws")


def test_a_region_that_nobody_names_is_a_payload_error() -> None:
    nowhere = Trajectory("arn:aws:sagemaker:::job/x", "t")
    assert resolve(nowhere, Settings(region="us-east-1")).region == "us-east-1"
    with pytest.raises(PayloadError, match="AWS_REGION"):
        resolve(nowhere, Settings())


def test_a_deadline_counts_down_and_never_below_zero(clock: Any) -> None:
    deadline = Deadline(clock.now + 10, clock)
    assert deadline.remaining == 10
    assert deadline.within(4).remaining == 4
    assert deadline.within(40).remaining == 10
    assert deadline.after(5).remaining == 15
    clock.now += 11
    assert deadline.remaining == 0
