"""A look at a job rides out what passes and gives up on what does not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from mtrl.aws import Cloud, CloudError
from mtrl.jobs.reading import Job, read_job
from mtrl.watch.looking import LONGEST_WAIT_S, Lookout

REGION = "us-east-1"
EVERY_S, PATIENCE_S = 2.0, 100.0


def described(**changes: Any) -> dict[str, Any]:
    return {
        "JobName": "j",
        "JobArn": "arn:aws:sagemaker:us-east-1:000000000000:job/AgentRFT/j",
        "RoleArn": "arn:aws:iam::000000000000:role/r",
        "JobCategory": "AgentRFT",
        "JobConfigSchemaVersion": "1.0.0",
        "JobConfigDocument": "{}",
        "CreationTime": datetime(2026, 12, 1, tzinfo=UTC),
        "LastModifiedTime": datetime(2026, 12, 1, tzinfo=UTC),
        "JobStatus": "InProgress",
        "SecondaryStatus": "Training",
        "SecondaryStatusTransitions": [],
    } | changes


def error(code: str, status: int = 400) -> ClientError:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "DescribeJob")


def answers(aws: Any, *values: Any) -> None:
    """DescribeJob answers these in turn."""
    left: Iterator[Any] = iter(values)
    aws.on("sagemaker", "DescribeJob", lambda params: next(left))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lookout(clock: Clock, reconnect: Any = Cloud) -> Lookout:
    job: Job = read_job(described())
    return Lookout(job, Cloud(REGION), EVERY_S, PATIENCE_S, reconnect=reconnect, clock=clock)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (error("ThrottlingException"), "throttled"),
        (error("InternalFailure", 500), "not reachable"),
        (EndpointConnectionError(endpoint_url="http://x"), "not reachable"),
        (error("ExpiredTokenException"), "log in again"),
        (NoCredentialsError(), "log in again"),
    ],
)
def test_what_passes_is_waited_out_with_growing_pauses(aws: Any, trouble: Any, said: str) -> None:
    answers(aws, trouble, trouble, trouble, described(JobStatus="Completed"))
    watch = lookout(Clock())
    looks = [watch.look() for _ in range(4)]
    assert all(said in look.trouble for look in looks[:3])
    waits = [look.wait_s for look in looks[:3]]
    assert EVERY_S < waits[0] < waits[1] < waits[2] <= LONGEST_WAIT_S
    assert all(look.job is not None for look in looks)
    assert looks[3].trouble == "" and looks[3].wait_s == EVERY_S
    assert looks[3].job and looks[3].job.view.status == "Completed"


def test_patience_has_an_end_and_starts_anew_after_a_good_look(aws: Any) -> None:
    throttled = error("ThrottlingException")
    answers(aws, throttled, described(), throttled, throttled, throttled)
    clock = Clock()
    watch = lookout(clock)
    for moment in (0.0, 90.0, 110.0, 200.0):
        clock.now = moment
        watch.look()
    clock.now = 211.0
    with pytest.raises(CloudError, match="the job is not touched") as caught:
        watch.look()
    assert "mtrl watch j" in caught.value.remedy


def test_expired_credentials_are_looked_for_anew(aws: Any) -> None:
    made: list[str] = []

    def reconnect(region: str) -> Cloud:
        made.append(region)
        return Cloud(region)

    answers(aws, error("ExpiredToken"), described())
    watch = lookout(Clock(), reconnect)
    assert watch.look().trouble
    assert watch.look().trouble == "" and made == [REGION]


def test_what_does_not_pass_ends_the_watch_at_once(aws: Any) -> None:
    answers(aws, error("AccessDeniedException"))
    with pytest.raises(CloudError, match="DescribeJob is not permitted"):
        lookout(Clock()).look()


def test_a_deleted_job_is_no_error(aws: Any) -> None:
    answers(aws, error("ResourceNotFound"))
    assert lookout(Clock()).look().job is None
