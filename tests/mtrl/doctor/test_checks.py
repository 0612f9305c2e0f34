"""Every check is well on a healthy deployment and fails when its one thing is broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from mtrl.doctor.check import State
from mtrl.doctor.examination import CHECKS

CONTROL, AGENT = "bedrock-agentcore-control", "bedrock-agentcore"
Break = Callable[[Any], None]


def error(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message or code}}, "Operation")


def on(service: str, operation: str, answer: Any) -> Break:
    return lambda patient: patient.aws.on(service, operation, answer)


def made(service: str, operation: str, maker: str, *values: Any, **changes: Any) -> Break:
    """Answer with what a maker of the conftest makes."""
    return lambda patient: patient.aws.on(
        service, operation, getattr(patient.make, maker)(*values, **changes)
    )


def program(name: str, version: str | None) -> Break:
    return lambda patient: patient.programs.versions.update({name: version})


def deployed(**changes: Any) -> Break:
    def change(patient: Any) -> None:
        patient.deployment = patient.deployment.model_copy(update=changes)

    return change


def trusting(*values: Any, **changes: Any) -> Break:
    def change(patient: Any) -> None:
        policy = patient.make.trust(*values, **changes)
        patient.aws.on("iam", "GetRole", lambda params: patient.make.role(policy))

    return change


def in_region(name: str) -> Break:
    def change(patient: Any) -> None:
        patient.region = name

    return change


def stack_is(name: str, status: str) -> Break:
    def change(patient: Any) -> None:
        def answer(params: dict[str, Any]) -> Any:
            asked = params["StackName"]
            return patient.make.stack(asked, status if asked == name else "UPDATE_COMPLETE")

        patient.aws.on("cloudformation", "DescribeStacks", answer)

    return change


def no_stack(name: str) -> Break:
    def change(patient: Any) -> None:
        def answer(params: dict[str, Any]) -> Any:
            if params["StackName"] == name:
                raise error("ValidationError", f"Stack with id {name} does not exist")
            return patient.make.stack(params["StackName"])

        patient.aws.on("cloudformation", "DescribeStacks", answer)

    return change


def row(text: str) -> Break:
    def change(patient: Any) -> None:
        patient.aws.on("s3", "GetObject", lambda params: {"Body": patient.make.Stream(text)})

    return change


def fresh_account(patient: Any) -> None:
    patient.deployment = None
    patient.aws.on("iam", "GetRole", error("NoSuchEntity"))


def in_vpc_without_role(patient: Any) -> None:
    ids = {"securityGroups": ["sg-01234567"], "subnets": ["subnet-01234567"]}
    network = {"networkMode": "VPC", "networkModeConfig": ids}
    runtime = patient.make.runtime(networkConfiguration=network, status="CREATE_FAILED")
    patient.aws.on(CONTROL, "GetAgentRuntime", runtime)

    def get_role(params: dict[str, Any]) -> Any:
        if params["RoleName"].endswith("Network"):
            raise error("NoSuchEntity")
        return patient.make.role(name=params["RoleName"])

    patient.aws.on("iam", "GetRole", get_role)


BROKEN: list[tuple[str, Break, str]] = [
    ("python", program("python", "3.10.4"), "3.10.4"),
    ("node", program("node", None), "no Node.js"),
    ("node", program("node", "v18.19.0"), "too old"),
    ("uv", program("uv", None), "no uv"),
    ("cdk", program("cdk", None), "no cdk"),
    ("botocore", program("botocore", "1.43.36"), "1.43.37"),
    ("cdk-bootstrap", on("ssm", "GetParameter", error("ParameterNotFound")), "not bootstrapped"),
    (
        "cdk-bootstrap",
        on("ssm", "GetParameter", {"Parameter": {"Name": "v", "Type": "String", "Value": "5"}}),
        "version 5",
    ),
    ("credentials", on("sts", "GetCallerIdentity", error("ExpiredToken")), "expired"),
    ("credentials", on("sts", "GetCallerIdentity", NoCredentialsError()), "credentials"),
    ("credentials", deployed(account="222222222222"), "222222222222"),
    ("region", in_region("eu-west-1"), "eu-west-1"),
    ("model", deployed(model="gemma-4-31b"), "not offered in us-east-1"),
    ("model", on("sagemaker", "DescribeHubContent", error("ResourceNotFound")), "no model"),
    (
        "model",
        made("sagemaker", "DescribeHubContent", "hub_content", HubContentStatus="Importing"),
        "Importing",
    ),
    ("job-quota", made("service-quotas", "ListServiceQuotas", "quotas", jobs=0), "is 0"),
    ("session-quota", made("service-quotas", "ListServiceQuotas", "quotas", sessions=100), "100"),
    (
        "session-quota",
        made(
            CONTROL,
            "GetAgentRuntime",
            "runtime",
            lifecycleConfiguration={"idleRuntimeSessionTimeout": 3600, "maxLifetime": 28800},
        ),
        "sessions at a time",
    ),
    ("service-linked-roles", fresh_account, "RuntimeIdentity does not exist yet"),
    ("service-linked-roles", in_vpc_without_role, "AWSServiceRoleForBedrockAgentCoreNetwork"),
    ("stacks-settled", no_stack("mtrl-dev-agent"), "no stack mtrl-dev-agent"),
    ("stacks-settled", stack_is("mtrl-dev-agent", "UPDATE_IN_PROGRESS"), "under way"),
    ("stacks-settled", stack_is("mtrl-dev-training", "ROLLBACK_COMPLETE"), "ROLLBACK"),
    (
        "regions",
        deployed(runtime_arn="arn:aws:bedrock-agentcore:us-west-2:111111111111:runtime/x"),
        "runtime in us-west-2",
    ),
    ("regions", on("s3", "HeadBucket", {"BucketRegion": "eu-west-1"}), "bucket in eu-west-1"),
    ("dataset", on("s3", "ListObjectsV2", {}), "no object under"),
    ("dataset", row(b"not json\n"), "not JSON"),  # pyright: ignore[reportArgumentType]
    ("mlflow-app", on("sagemaker", "DescribeMlflowApp", error("ResourceNotFound")), "no MLflow"),
    ("mlflow-app", made("sagemaker", "DescribeMlflowApp", "mlflow_app", Status="Creating"), "Cr"),
    (
        "mlflow-app",
        made("sagemaker", "DescribeMlflowApp", "mlflow_app", MlflowVersion="2.16.2"),
        "2.16.2",
    ),
    (
        "package-groups",
        on("sagemaker", "DescribeModelPackageGroup", error("ValidationException", "x not found")),
        "no model package group",
    ),
    (
        "package-groups",
        made(
            "sagemaker",
            "DescribeModelPackageGroup",
            "package_group",
            ModelPackageGroupStatus="Failed",
        ),
        "Failed",
    ),
    (
        "rollout-budget",
        made(
            CONTROL, "GetAgentRuntime", "runtime", environmentVariables={"ROLLOUT_BUDGET_S": "590"}
        ),
        "590 s",
    ),
    (
        "rollout-budget",
        made(
            CONTROL,
            "GetAgentRuntime",
            "runtime",
            lifecycleConfiguration={"idleRuntimeSessionTimeout": 60, "maxLifetime": 300},
        ),
        "after 300 s",
    ),
    ("job-role-trust", trusting("sagemaker.amazonaws.com"), "instead of"),
    ("job-role-trust", trusting(Action="sts:AssumeRole"), "TagSession"),
    ("job-role-trust", trusting("lambda.amazonaws.com"), "does not trust"),
    ("job-role-trust", trusting(Effect="Deny"), "does not trust"),
    (
        "job-role-trust",
        trusting(Condition={"StringEquals": {"aws:SourceAccount": "222222222222"}}),
        "does not trust",
    ),
    (
        "runtime-ready",
        made(CONTROL, "GetAgentRuntime", "runtime", status="UPDATE_FAILED"),
        "UPDATE",
    ),
    (
        "runtime-ready",
        made(CONTROL, "GetAgentRuntimeEndpoint", "endpoint", status="UPDATING"),
        "endpoint is UPDATING",
    ),
    (
        "runtime-ready",
        made(CONTROL, "GetAgentRuntimeEndpoint", "endpoint", targetVersion="5"),
        "from version 4 to 5",
    ),
    (
        "runtime-ready",
        on(CONTROL, "GetAgentRuntimeEndpoint", error("ResourceNotFoundException", "no spec_1")),
        "no spec_1",
    ),
    (
        "runtime-answers",
        on(AGENT, "InvokeAgentRuntime", error("RuntimeClientError", "initialization timed out")),
        "did not start",
    ),
    (
        "runtime-answers",
        on(AGENT, "InvokeAgentRuntime", error("ResourceNotFoundException", "no endpoint")),
        "no endpoint",
    ),
    (
        "runtime-answers",
        made(AGENT, "InvokeAgentRuntime", "reply", stop_reason="bad_row", error="answer: missing"),
        "cannot read a row",
    ),
    (
        "runtime-answers",
        made(AGENT, "InvokeAgentRuntime", "reply", stop_reason="task_error", error="KeyError"),
        "breaks on a row",
    ),
]


@pytest.mark.parametrize(("name", "harm", "said"), BROKEN, ids=lambda value: str(value)[:30])
def test_a_check_fails_for_its_one_broken_thing_and_says_how_to_mend_it(
    patient: Any, name: str, harm: Break, said: str
) -> None:
    assert patient.examined(name)[name].state is State.OK
    harm(patient)
    finding = patient.examined(name)[name]
    assert finding.state is State.FAILED, finding
    assert said in finding.what
    assert finding.why and finding.fix


def test_every_check_is_well_on_a_healthy_deployment(patient: Any) -> None:
    findings = patient.examined()
    assert {name: f for name, f in findings.items() if f.state is not State.OK} == {}
    assert len(findings) == len(CHECKS)


def test_every_check_is_broken_by_a_test() -> None:
    simulated = {"job-role-permissions", "runtime-role-permissions", "caller-permissions"}
    assert {name for name, _, _ in BROKEN} | simulated == {check.name for check in CHECKS}


ACTIONS = [
    ("job-role-permissions", "s3:GetObject"),
    ("job-role-permissions", "s3:PutObject"),
    ("job-role-permissions", "sagemaker:DescribeHubContent"),
    ("job-role-permissions", "sagemaker:CreateModelPackage"),
    ("job-role-permissions", "sagemaker-mlflow:LogBatch"),
    ("job-role-permissions", "bedrock-agentcore:InvokeAgentRuntime"),
    ("runtime-role-permissions", "sagemaker:Sample"),
    ("runtime-role-permissions", "sagemaker:UpdateReward"),
    ("caller-permissions", "sagemaker:CreateJob"),
    ("caller-permissions", "iam:PassRole"),
]


@pytest.mark.parametrize(("name", "action"), ACTIONS)
def test_a_denied_action_is_named_with_its_resource(patient: Any, name: str, action: str) -> None:
    patient.aws.on("iam", "SimulatePrincipalPolicy", patient.make.simulated(action))
    finding = patient.examined(name)[name]
    assert finding.state is State.FAILED
    assert f"{action} on arn:aws:" in finding.what


def test_the_callers_right_to_pass_the_role_is_asked_with_its_condition(patient: Any) -> None:
    patient.examined("caller-permissions")
    asked = patient.aws.asked("SimulatePrincipalPolicy")
    passing = next(call for call in asked if "iam:PassRole" in call["ActionNames"])
    (context,) = passing["ContextEntries"]
    assert context["ContextKeyValues"] == ["job.sagemaker.amazonaws.com"]
    assert passing["PolicySourceArn"].endswith(":role/Operator")


def test_a_running_job_that_holds_the_quota_is_named(patient: Any) -> None:
    job = {
        "JobArn": "arn:aws:sagemaker:us-east-1:111111111111:job/AgentRFT/other",
        "JobName": "other", "JobCategory": "AgentRFT", "JobStatus": "InProgress",
        "JobSecondaryStatus": "Training",
        "CreationTime": "2026-12-01T00:00:00Z", "LastModifiedTime": "2026-12-01T00:00:00Z",
    }  # fmt: skip
    listed = lambda p: {"JobSummaries": [job] if p["StatusEquals"] == "InProgress" else []}  # noqa: E731
    patient.aws.on("sagemaker", "ListJobs", listed)
    finding = patient.examined("job-quota")["job-quota"]
    assert finding.state is State.FAILED and "other" in finding.what
    assert finding.fix == "mtrl watch other"


def test_a_trust_policy_can_be_pasted_as_it_is_advised(patient: Any) -> None:
    trusting("sagemaker.amazonaws.com")(patient)
    fix = patient.examined("job-role-trust")["job-role-trust"].fix
    advised = json.loads(fix.split("'")[1])
    patient.aws.on("iam", "GetRole", lambda params: patient.make.role(advised))
    assert patient.examined("job-role-trust")["job-role-trust"].state is State.OK


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (("iam", "SimulatePrincipalPolicy"), "job-role-permissions"),
        (("cloudformation", "DescribeStacks"), "stacks-settled"),
        (("bedrock-agentcore", "InvokeAgentRuntime"), "runtime-answers"),
    ],
)
def test_what_may_not_be_looked_at_is_skipped_and_does_not_fail(
    patient: Any, operation: tuple[str, str], name: str
) -> None:
    patient.aws.on(*operation, error("AccessDeniedException", "not you"))
    finding = patient.examined(name)[name]
    assert finding.state is State.SKIPPED and "not" in finding.what


def test_without_credentials_only_the_machine_is_looked_at(patient: Any) -> None:
    patient.aws.on("sts", "GetCallerIdentity", NoCredentialsError())
    findings = patient.examined()
    assert findings["python"].state is State.OK
    assert findings["credentials"].state is State.FAILED
    assert findings["dataset"].state is State.SKIPPED
    assert sum(f.state is State.FAILED for f in findings.values()) == 1


def test_without_a_deployment_the_account_is_still_looked_at(patient: Any) -> None:
    patient.deployment = None
    findings = patient.examined()
    assert findings["model"].state is State.OK
    assert findings["runtime-ready"].state is State.SKIPPED


def test_a_runtime_that_was_changed_outside_of_a_deployment_is_warned_of(patient: Any) -> None:
    newer = patient.make.runtime(agentRuntimeVersion="5")
    patient.aws.on(CONTROL, "GetAgentRuntime", newer)
    finding = patient.examined("runtime-ready")["runtime-ready"]
    assert finding.state is State.WARNING and "version 5" in finding.what
