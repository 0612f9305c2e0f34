"""Every class of fault, over the wire: what the client sees, and what the service did."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal.draws import DrawKey
from rehearsal.faults import CHAT, COMPLETE, FAILING, FINAL, Call, FaultPlan
from rehearsal.settings import Fault, FaultSettings, ServiceSettings

JOB = "arn:aws:sagemaker:us-east-1:000000000000:job/AgentRFT/test"


def plan_for(rates: dict[Fault, float], seed: int = 1) -> FaultPlan:
    return FaultPlan(FaultSettings(rates=rates, seed=seed))


def chat(trajectory_id: str, turns: int = 0) -> Call:
    messages = [{"role": "assistant", "content": "x"}] * turns
    return Call(CHAT, JOB, trajectory_id, {"messages": messages})


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault.UNAUTHORIZED, 401),
        (Fault.FORBIDDEN, 403),
        (Fault.THROTTLED, 429),
        (Fault.THROTTLED_RETRY_AFTER, 429),
        (Fault.SERVER_ERROR, 500),
        (Fault.UNAVAILABLE, 503),
    ],
)
def test_a_refused_call_is_not_acted_upon_and_succeeds_when_repeated(
    faulty: Any, fault: Fault, status: int
) -> None:
    with faulty({fault: 1.0}, retry_after_s=7) as service:
        trajectory = service.open()
        refused = service.sample()
        assert refused.status_code == status
        assert trajectory.samples == {}
        asked = "7" if fault is Fault.THROTTLED_RETRY_AFTER else None
        assert refused.headers.get("retry-after") == asked
        assert service.sample().status_code == 200
        for report in (service.complete, lambda: service.reward(0.5)):
            assert report().status_code == status
            assert report().status_code == 200
        assert trajectory.rewards == [0.5]
        assert [entry["faults"] for entry in service.ledger()] == [[fault], []] * 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_answer_ends_in_the_middle_of_its_body(faulty: Any, stream: bool) -> None:
    with faulty({Fault.STREAM_CUT: 1.0}) as service:
        service.open()
        with pytest.raises(httpx.RemoteProtocolError):
            service.sample(stream=stream)
        assert service.sample(stream=stream).status_code == 200


def test_a_slow_answer_is_whole(faulty: Any) -> None:
    with faulty({Fault.SLOW_FIRST_BYTE: 1.0}, slow_s=0.3) as service:
        service.open()
        reply = service.sample()
        assert reply.status_code == 200
        assert reply.elapsed.total_seconds() >= 0.3


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_without_choices_names_none(faulty: Any, stream: bool) -> None:
    with faulty({Fault.EMPTY_CHOICES: 1.0}) as service:
        service.open()
        assert all(event["choices"] == [] for event in events(service.sample(stream=stream)))
        assert events(service.sample(stream=stream))[0]["choices"] != []


@pytest.mark.parametrize("stream", [False, True])
def test_a_malformed_call_has_arguments_that_are_no_json(faulty: Any, stream: bool) -> None:
    with faulty({Fault.MALFORMED_TOOL_CALL: 1.0}) as service:
        broken = 0
        for place in range(8):
            service.open(f"t-{place}", place)
            for arguments in call_arguments(service.sample(f"t-{place}", stream=stream)):
                with pytest.raises(ValueError):
                    json.loads(arguments)
                broken += 1
        assert broken > 0


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_cut_at_its_token_limit_has_no_call(faulty: Any, stream: bool) -> None:
    with faulty({Fault.LENGTH_WITHOUT_CALL: 1.0}) as service:
        service.open()
        reply = service.sample(stream=stream)
        assert call_arguments(reply) == []
        finishes = [c["finish_reason"] for event in events(reply) for c in event["choices"]]
        assert finishes[-1] == "length"


def test_duplicated_chunks_repeat_every_event_of_a_stream_and_leave_a_body_alone(
    faulty: Any,
) -> None:
    with faulty({Fault.DUPLICATED_CHUNKS: 1.0}) as service:
        service.open()
        twice = events(service.sample(stream=True))
        assert twice[::2] == twice[1::2]
        service.open("t-2")
        assert len(events(service.sample("t-2"))) == 1
        assert service.ledger()[-1]["faults"] == []


def test_a_lost_acknowledgement_is_applied_and_its_repeat_is_done_already(faulty: Any) -> None:
    with faulty({Fault.LOST_ACKNOWLEDGEMENT: 1.0}) as service:
        trajectory = service.open()
        for report in (service.complete, lambda: service.reward(0.5)):
            with pytest.raises(httpx.HTTPError):
                report()
            repeated = report()
            assert repeated.status_code == 409
            assert "Cannot transition" in repeated.text or "not in valid status" in repeated.text
        assert trajectory.rewards == [0.5]


def test_an_already_processed_report_has_been_applied(faulty: Any) -> None:
    with faulty({Fault.ALREADY_PROCESSED: 1.0}) as service:
        trajectory = service.open()
        assert (service.complete().status_code, trajectory.status) == (409, "ready")
        assert (service.reward(0.5).status_code, trajectory.rewards) == (409, [0.5])


def test_calls_that_are_no_part_of_a_rollout_meet_no_fault(faulty: Any) -> None:
    with faulty(dict.fromkeys(Fault, 1.0)) as service:
        assert service.http.get(f"{service.url}/ping").status_code == 200
        listing = service.post("/", {}, **{"X-Amz-Target": "SageMaker.ListMlflowApps"})
        assert listing.status_code == 200
        assert service.sample("unknown").status_code == 404
        assert [entry["faults"] for entry in service.ledger()] == [[]]


def test_the_ledger_says_what_was_asked_and_what_went_out(faulty: Any) -> None:
    with faulty({Fault.THROTTLED: 0.0}) as service:
        service.open()
        said = events(service.sample(temperature=0.25))[0]["choices"][0]["message"]
        (entry,) = service.ledger()
    assert (entry["trajectory"], entry["turn"], entry["temperature"]) == ("t-1", 0, 0.25)
    calls = [[c["function"]["name"], c["function"]["arguments"]] for c in said["tool_calls"]]
    assert entry["delivered"]["calls"] == calls
    assert (entry["applied"], entry["history"]) == (True, [])


def test_no_fault_is_injected_unless_asked_for() -> None:
    assert not ServiceSettings(state="unused").faults.active  # type: ignore[arg-type]


def test_the_same_seed_meets_the_same_faults_and_another_meets_others() -> None:
    rates = dict.fromkeys(Fault, 0.3)

    def drawn(seed: int) -> list[Any]:
        plan = plan_for(rates, seed)
        return [plan.attempts(chat("t"), DrawKey(1, "train", 1, n, 0).uniform) for n in range(50)]

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.parametrize("path", [CHAT, COMPLETE])
def test_each_class_meets_its_share_of_the_calls(path: str) -> None:
    rate, calls = 0.1, 4000
    plan = plan_for(dict.fromkeys(Fault, rate))
    met: Counter[Fault] = Counter()
    for n in range(calls):
        draw = DrawKey(1, "train", 1, n, 0).uniform
        met.update(f for faults in plan.attempts(Call(path, JOB, "t", {}), draw) for f in faults)
    possible = {*FAILING[path], *FINAL[path], Fault.SLOW_FIRST_BYTE}
    assert set(met) == possible
    # Six standard deviations of a binomial share.
    bound = 6 * (rate * (1 - rate) / calls) ** 0.5
    assert all(abs(met[fault] / calls - rate) < bound for fault in possible)


@given(rate=st.floats(0, 1), place=st.integers(0, 10_000))
def test_a_call_is_always_answered_after_its_faults(rate: float, place: int) -> None:
    plan = plan_for(dict.fromkeys(Fault, rate))
    draw = DrawKey(1, "train", 1, place, 0).uniform
    attempts = [plan.next(chat("t"), draw) for _ in range(len(FAILING[CHAT]) + 2)]
    assert attempts[-1] == ()
    final = [f for faults in attempts for f in faults if f in FINAL[CHAT]]
    assert len(final) <= 1


def events(reply: httpx.Response) -> list[dict[str, Any]]:
    assert reply.status_code == 200
    if not reply.headers["content-type"].startswith("text/event-stream"):
        return [reply.json()]
    lines = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def call_arguments(reply: httpx.Response) -> list[str]:
    parts = [
        choice.get("message") or choice["delta"]
        for event in events(reply)
        for choice in event["choices"]
    ]
    return [call["function"]["arguments"] for p in parts for call in p.get("tool_calls", ())]
