"""Every knob of a deployment: typed, validated before anything is synthesised.

A named set is a TOML file in `environments/`, chosen with `-c env=NAME`; a few knobs of a single
run can be given on the command line (`-c run_id=… -c submit_job=true …`). What comes out is one
frozen `Settings`; what is wrong with a set is said by the knob's name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from agent import settings as runtime
from agent.task import TASKS
from mtrl.errors import InputError
from mtrl.job import hyperparameters
from mtrl.job.builder import RESUME_LAST
from mtrl.job.models import BASE_MODELS, REGIONS, base_model_arn

_DEFAULTS = runtime.Settings()
ENVIRONMENTS = Path(__file__).parent / "environments"
RUN_KNOBS = {
    "run_id": "training.run_id",
    "submit_job": "training.submit_job",
    "resume_from": "training.resume_from",
    "start_from": "training.start_from",
    "force": "force",
    "region": "region",
    "account": "account",
}
"""Names that `-c NAME=VALUE` overrides, and where each belongs."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,18}[a-z0-9]$")]
RunId = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,39}$")]
_PACKAGE_ARN = r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:model-package/\S+"
PackageArn = Annotated[str, StringConstraints(pattern=f"^{_PACKAGE_ARN}$")]
Checkpoint = Annotated[str, StringConstraints(pattern=f"^({RESUME_LAST}|{_PACKAGE_ARN})$")]
SubnetId = Annotated[str, StringConstraints(pattern=r"^subnet-[0-9a-f]{8,17}$")]
SecurityGroupId = Annotated[str, StringConstraints(pattern=r"^sg-[0-9a-f]{8,17}$")]


class _Knobs(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Vpc(_Knobs):
    """An existing network; nothing is looked up."""

    subnet_ids: Annotated[tuple[SubnetId, ...], Field(min_length=1, max_length=16)]
    security_group_ids: Annotated[tuple[SecurityGroupId, ...], Field(min_length=1, max_length=5)]


class Agent(_Knobs):
    """The AgentCore runtime."""

    task: str = "wordle"
    python: Literal["3.11", "3.12", "3.13", "3.14"] = "3.13"
    platform_version: Literal["V1", "V2"] = "V2"
    """V2 restores sessions from a snapshot taken after start and allows 120 s for the start."""
    idle_timeout_s: Annotated[int, Field(ge=60, le=28_800)] = 60
    """A session is billed for memory until it has been idle for so long."""
    max_lifetime_s: Annotated[int, Field(ge=60, le=28_800)] = 1_800
    """Nothing lists running sessions, so none may live for ever."""
    reasoning_effort: str | None = None
    prompt_hint: str | None = None
    rollout_budget_s: int = int(_DEFAULTS.rollout_budget_s)
    """Wall-clock budget of one rollout; the job's rollout_timeout has to be longer."""
    max_policy_calls: int = _DEFAULTS.max_policy_calls
    trace_log: bool = True
    """Every rollout's trace as a line in the runtime's log."""
    tracing: bool = True
    """X-Ray spans of the runtime."""
    vpc: Vpc | None = None
    """Absent: the PUBLIC network."""

    @model_validator(mode="after")
    def _agent_accepts(self) -> Self:
        try:
            runtime.read_settings(self.environment())
        except runtime.SettingsError as error:
            raise ValueError(str(error)) from None
        if self.task not in TASKS:
            raise ValueError(f"task {self.task!r} is not one of {', '.join(sorted(TASKS))}")
        return self

    def environment(self) -> dict[str, str]:
        """Environment variables of the runtime: what `agent.settings` reads."""
        variables = {
            "AGENT_TASK": self.task,
            "REASONING_EFFORT": self.reasoning_effort,
            "REASONING_PROMPT_HINT": self.prompt_hint,
            "ROLLOUT_BUDGET_S": str(self.rollout_budget_s),
            "MAX_POLICY_CALLS": str(self.max_policy_calls),
            "TRACE_LOG": "1" if self.trace_log else "0",
        }
        return {name: value for name, value in variables.items() if value}


class Data(_Knobs):
    """Dataset files of this repository; `validation` may be left out."""

    train: str
    validation: str | None = None
    evaluation: str | None = None

    def files(self) -> dict[str, str]:
        """Channel -> path of the files that are given."""
        return {k: v for k, v in self.model_dump().items() if v is not None}


class Training(_Knobs):
    """The training job."""

    run_id: RunId = "run-1"
    """Names one run. A new one is the only thing that starts another job."""
    submit_job: bool = False
    model: str = "gpt-oss-20b"
    base_model: str | None = None
    """ARN of a hub model, for models whose hub name no source states."""
    accept_eula: bool = False
    hyperparameters: dict[str, Any] = Field(default_factory=dict)
    resume_from: Checkpoint | None = None
    """ARN of a resumable checkpoint, or "last" for that of the run before."""
    start_from: PackageArn | None = None
    """ARN of a trained model to iterate on."""
    early_watch_s: Annotated[int, Field(ge=0, le=1_800)] = 300
    """How long a deployment stays with a new job to report an early failure."""
    vpc: Vpc | None = None

    @field_validator("model")
    @classmethod
    def _known_model(cls, model: str) -> str:
        if model not in BASE_MODELS:
            raise ValueError(f"{model!r} is not one of {', '.join(sorted(BASE_MODELS))}")
        return model

    @field_validator("hyperparameters")
    @classmethod
    def _in_range(cls, values: dict[str, Any]) -> dict[str, Any]:
        hyperparameters.parse(hyperparameters.TRAINING, hyperparameters.to_wire(values))
        return values

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if self.resume_from and self.start_from:
            raise ValueError(
                "resume_from and start_from exclude each other: the first goes on with a broken "
                "run, the second starts a new one from a trained model"
            )
        if self.submit_job and not self.accept_eula:
            raise ValueError("accept_eula: must be true to submit a job")
        return self

    def wire(self) -> dict[str, str]:
        """The hyperparameters as the service wants them."""
        return hyperparameters.to_wire(self.hyperparameters)

    def values(self) -> dict[str, Any]:
        """The hyperparameters typed, with the service's defaults filled in."""
        return hyperparameters.parse(hyperparameters.TRAINING, self.wire())


class Prices(_Knobs):
    """US dollars per million tokens, for a model and Region whose prices no source states."""

    prefill: Annotated[float, Field(ge=0)]
    sample: Annotated[float, Field(ge=0)]
    train: Annotated[float, Field(ge=0)]


class Budget(_Knobs):
    """What a job may cost in tokens before it is stopped."""

    usd: Annotated[float, Field(gt=0)]
    check_every_minutes: Annotated[int, Field(ge=1, le=60)] = 5
    prices: Prices | None = None


class Settings(_Knobs):
    """One deployment."""

    name: Name = "mtrl"
    env: Name
    region: str
    account: Annotated[str, StringConstraints(pattern=r"^\d{12}$")] | None = None
    """Absent: whichever account the credentials belong to."""
    keep_data: bool
    """True keeps the bucket, its logs and its models when the stacks are destroyed."""
    log_retention_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 180, 365] = 30
    notify_email: Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+$")] | None = None
    restrict_job_role_to_account: bool = True
    """Adds aws:SourceAccount to the job role's trust; off if the service refuses the role."""
    trust_sdk_principal: bool = False
    """Adds sagemaker.amazonaws.com to the job role's trust, for the SDK's own check."""
    force: bool = False
    """Lets an update of the runtime through although a job uses it."""
    agent: Agent = Agent()
    data: Data
    training: Training = Training()
    budget: Budget

    @field_validator("region")
    @classmethod
    def _known_region(cls, region: str) -> str:
        if region not in REGIONS:
            raise ValueError(
                f"{region!r} offers no multi-turn RL; it is offered in {', '.join(REGIONS)}"
            )
        return region

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self._check_model()
        self._check_regions()
        self._check_times()
        return self

    def _check_model(self) -> None:
        model = BASE_MODELS[self.training.model]
        if self.region not in model.regions:
            raise ValueError(
                f"training.model: {self.training.model!r} is not offered in {self.region!r}; "
                f"it is in {', '.join(model.regions)}"
            )
        if model.hub_name is None and self.training.base_model is None:
            raise ValueError(
                f"training.base_model: no source states the hub name of {self.training.model!r}; "
                "give the ARN of its hub content"
            )

    def _check_regions(self) -> None:
        for knob in ("base_model", "resume_from", "start_from"):
            arn = getattr(self.training, knob)
            if arn and arn != RESUME_LAST and arn.split(":")[3:4] != [self.region]:
                raise ValueError(
                    f"training.{knob}: {arn} does not lie in {self.region!r}; "
                    "the job and all that it uses must be in one Region"
                )

    def _check_times(self) -> None:
        timeout = self.training.values()["rollout_timeout"]
        latest = self.agent.rollout_budget_s + runtime.REPORT_RESERVE_S
        if latest > timeout:
            raise ValueError(
                f"agent.rollout_budget_s: {self.agent.rollout_budget_s} s and the "
                f"{runtime.REPORT_RESERVE_S:g} s of reporting must fit into the job's "
                f"rollout_timeout of {timeout} s, or rewards arrive too late"
            )
        if self.agent.max_lifetime_s < timeout:
            raise ValueError(
                f"agent.max_lifetime_s: {self.agent.max_lifetime_s} s ends sessions before the "
                f"job's rollout_timeout of {timeout} s"
            )

    @property
    def prefix(self) -> str:
        """What every name of this deployment begins with."""
        return f"{self.name}-{self.env}"

    @property
    def base_model_arn(self) -> str:
        """The model that is trained."""
        hub_name = BASE_MODELS[self.training.model].hub_name
        if self.training.base_model:
            return self.training.base_model
        assert hub_name is not None  # _check_model
        return base_model_arn(hub_name, self.region)


def load_settings(
    env: str, overrides: Mapping[str, Any] | None = None, folder: Path = ENVIRONMENTS
) -> Settings:
    """Read a named set and lay the command line's knobs over it.

    Args:
        env: name of a file in `folder`, without its ending.
        overrides: RUN_KNOBS names to text, as `cdk -c` hands them over; None values are ignored.

    Raises:
        InputError: no such set, an unknown knob, or a value that is not allowed; by name.
    """
    path = folder / f"{env}.toml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.toml")))
        raise InputError(
            "unknown-environment", f"env: there is no set {env!r}.", f"Known sets: {known}."
        )
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise InputError("bad-settings", f"{path.name}: not TOML: {error}.") from None
    for knob, value in (overrides or {}).items():
        if value is not None:
            _lay_over(raw, knob, value)
    try:
        return Settings.model_validate({**raw, "env": env})
    except ValidationError as error:
        lines = [_line(e) for e in error.errors()]
        raise InputError(
            "bad-settings",
            f"settings of env {env!r}: " + "; ".join(lines),
            "Settings are described in stacks/settings.py.",
        ) from None


def _lay_over(raw: dict[str, Any], knob: str, value: Any) -> None:
    if knob not in RUN_KNOBS:
        known = ", ".join(sorted(RUN_KNOBS))
        raise InputError("unknown-knob", f"{knob}: cannot be given with -c.", f"Known: {known}.")
    *groups, key = RUN_KNOBS[knob].split(".")
    for group in groups:
        raw = raw.setdefault(group, {})
    raw[key] = value


def _line(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"] if not str(part).startswith("function-"))
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown setting"
    if error["type"] == "missing":
        return f"{where}: is missing"
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, hyperparameters.HyperparameterError):
        return f"{where}.{cause.name}: {str(cause).split(': ', 1)[1]}"
    said = error["msg"].removeprefix("Value error, ")
    got = "" if error["type"] == "value_error" else f" (got {error['input']!r})"
    return f"{where}: {said}{got}" if where else said
