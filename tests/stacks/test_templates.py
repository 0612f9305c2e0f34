"""What the templates say: trust, permissions, conditions, order, and what outlives what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mtrl.errors import InputError
from mtrl.job.document import TrainingDocument, parse_document
from tests.stacks.roles import actions, allowing, statements, trust

STACKS = ("foundation", "agent", "oversight", "training")
VPC = {"subnet_ids": ["subnet-12345678"], "security_group_ids": ["sg-12345678"]}
PACKAGE = "arn:aws:sagemaker:us-east-1:000000000000:model-package/mtrl-dev-models/7"


def document(synthesised: Any) -> dict[str, Any]:
    """The job's document with a text in place of each value that only a deployment knows."""
    job = synthesised.only("training", "Custom::TrainingJob")
    text = flat(job["Properties"]["Document"])
    return json.loads(text)


def flat(value: Any) -> str:
    if isinstance(value, str):
        return value
    if "Fn::Join" in value:
        return "".join(flat(part) for part in value["Fn::Join"][1])
    if "Fn::GetStackOutput" in value:
        return f"<{value['Fn::GetStackOutput']['OutputName']}>"
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    return {"AWS::Partition": "aws", "AWS::AccountId": "000000000000"}.get(
        value.get("Ref", ""), f"<{json.dumps(value)}>"
    )


# -- the job's role ------------------------------------------------------------------------------


def test_the_job_role_trusts_the_job_service_with_session_tags_and_nobody_else(synth):
    role = synth().only("training", "AWS::IAM::Role", "JobRole")
    assert trust(role) == [
        {
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}},
            "Effect": "Allow",
            "Principal": {"Service": "job.sagemaker.amazonaws.com"},
        }
    ]


def test_the_account_condition_and_the_sdks_principal_are_switches(synth):
    role = synth(restrict_job_role_to_account=False, trust_sdk_principal=True).only(
        "training", "AWS::IAM::Role", "JobRole"
    )
    services = {s["Principal"]["Service"] for s in trust(role)}
    assert services == {"job.sagemaker.amazonaws.com", "sagemaker.amazonaws.com"}
    assert all("Condition" not in s for s in trust(role))


def test_the_job_role_reaches_this_deployments_resources_alone(synth):
    role = synth().only("training", "AWS::IAM::Role", "JobRole")
    assert not [s for s in statements(role) if s["Resource"] == "*"]
    invoke = allowing(role, "bedrock-agentcore:InvokeAgentRuntime")
    assert [flat(r) for r in invoke["Resource"]] == [
        "<RuntimeArn>",
        "<RuntimeArn>/runtime-endpoint/*",
    ]
    assert flat(allowing(role, "sagemaker:CallMlflowAppApi")["Resource"]) == "<MlflowAppArn>"
    assert flat(allowing(role, "s3:PutObject")["Resource"]) == "<BucketArn>/output/*"
    packages = [flat(r) for r in allowing(role, "sagemaker:CreateModelPackage")["Resource"]]
    assert all("mtrl-dev-models" in r or "mtrl-dev-checkpoints" in r for r in packages)


def test_network_permissions_come_with_a_network_only(synth):
    plain = synth().only("training", "AWS::IAM::Role", "JobRole")
    inside = synth(training__vpc=VPC).only("training", "AWS::IAM::Role", "JobRole")
    assert not [a for a in actions(plain) if a.startswith("ec2:")]
    assert "ec2:CreateNetworkInterface" in actions(inside)


# -- the runtime ---------------------------------------------------------------------------------


def test_the_runtime_role_may_sample_and_report_and_write_its_logs(synth):
    role = synth().only("agent", "AWS::IAM::Role", "RuntimeRole")
    (who,) = trust(role)
    assert who["Principal"] == {"Service": "bedrock-agentcore.amazonaws.com"}
    assert set(who["Condition"]) == {"StringEquals", "ArnLike"}
    assert {a for a in actions(role) if a.startswith("sagemaker:")} == {
        "sagemaker:Sample",
        "sagemaker:SampleWithResponseStream",
        "sagemaker:CompleteRollout",
        "sagemaker:UpdateReward",
        "sagemaker:CallWithBearerToken",
    }
    assert not [a for a in actions(role) if a.startswith(("s3:", "iam:", "ecr:", "bedrock:"))]


def test_the_runtime_says_everything_explicitly(synth):
    properties = synth().only("agent", "AWS::BedrockAgentCore::Runtime")["Properties"]
    assert properties["PlatformVersion"] == "V2"
    assert properties["NetworkConfiguration"] == {"NetworkMode": "PUBLIC"}
    assert properties["LifecycleConfiguration"]["IdleRuntimeSessionTimeout"] == 60
    assert properties["AgentRuntimeArtifact"]["CodeConfiguration"]["EntryPoint"] == ["main.py"]
    assert properties["EnvironmentVariables"]["AGENT_TASK"] == "wordle"


def test_the_runtime_can_live_in_a_network(synth):
    properties = synth(agent__vpc=VPC).only("agent", "AWS::BedrockAgentCore::Runtime")["Properties"]
    assert properties["NetworkConfiguration"] == {
        "NetworkMode": "VPC",
        "NetworkModeConfig": {"Subnets": ["subnet-12345678"], "SecurityGroups": ["sg-12345678"]},
    }


def test_the_endpoint_is_pinned_to_the_runtimes_version_and_jobs_use_it(synth):
    deployed = synth()
    endpoint = deployed.only("agent", "AWS::BedrockAgentCore::RuntimeEndpoint")["Properties"]
    (runtime,) = deployed.resources("agent", "AWS::BedrockAgentCore::Runtime")
    assert endpoint["AgentRuntimeVersion"] == {"Fn::GetAtt": [runtime, "AgentRuntimeVersion"]}
    agent = document(deployed)["AgentConfig"]["BedrockAgentCoreConfig"]
    assert agent == {"AgentRuntimeArn": "<RuntimeArn>", "Qualifier": endpoint["Name"]}


@pytest.mark.parametrize(
    "change",
    [
        {"agent__reasoning_effort": "low"},
        {"agent__prompt_hint": "Think."},
        {"agent__rollout_budget_s": 400},
        {"agent__platform_version": "V1"},
        {"agent__idle_timeout_s": 61},
        {"agent__max_lifetime_s": 1801},
        {"agent__vpc": VPC},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_new_specification_makes_a_new_endpoint(synth, change):
    kind = "AWS::BedrockAgentCore::RuntimeEndpoint"
    before, after = synth().resources("agent", kind), synth(**change).resources("agent", kind)
    assert before.keys().isdisjoint(after.keys())
    names = [next(iter(r.values()))["Properties"]["Name"] for r in (before, after)]
    assert names[0] != names[1]


def test_what_is_not_the_agents_leaves_its_endpoint_alone(synth):
    kind = "AWS::BedrockAgentCore::RuntimeEndpoint"
    changed = synth(training__run_id="other", budget__usd=7, log_retention_days=14)
    assert synth().resources("agent", kind) == changed.resources("agent", kind)


def test_the_runtime_and_its_role_wait_for_the_guard(synth):
    deployed = synth()
    (guard,) = deployed.resources("agent", "Custom::RuntimeGuard")
    for kind, name in (("AWS::BedrockAgentCore::Runtime", "Runtime"),
                       ("AWS::IAM::Role", "RuntimeRole")):  # fmt: skip
        assert guard in deployed.only("agent", kind, name)["DependsOn"]
    endpoint = deployed.only("agent", "AWS::BedrockAgentCore::RuntimeEndpoint")["Properties"]
    assert (
        deployed.only("agent", "Custom::RuntimeGuard")["Properties"]["Endpoint"]
        == (endpoint["Name"])
    )


def test_the_log_groups_are_in_bounds_before_the_endpoint_can_write(synth):
    deployed = synth()
    (logs,) = deployed.resources("agent", "Custom::RuntimeLogs")
    assert logs in deployed.only("agent", "AWS::BedrockAgentCore::RuntimeEndpoint")["DependsOn"]


# -- the job -------------------------------------------------------------------------------------


def test_the_document_is_one_that_the_service_accepts(synth):
    text = json.dumps(document(synth())).replace(
        "<RuntimeArn>", "arn:aws:bedrock-agentcore:us-east-1:000000000000:runtime/r"
    )
    text = text.replace("<MlflowAppArn>", "arn:aws:sagemaker:us-east-1:000000000000:mlflow-app/a")
    text = text.replace("<BucketName>", "bucket")
    parsed = parse_document(text, TrainingDocument, "us-east-1")
    assert parsed.values()["global_batch_size"] == 32


def test_nothing_waits_for_the_job_and_the_job_waits_for_role_and_record(synth):
    deployed = synth()
    (job,) = deployed.resources("training", "Custom::TrainingJob")
    others = {k: v for k, v in deployed.templates["training"]["Resources"].items() if k != job}
    assert job not in json.dumps(others)
    waits = deployed.only("training", "Custom::TrainingJob")["DependsOn"]
    assert {name[:7] for name in waits} >= {"JobRole", "Record8"}


def test_no_other_stack_reads_from_the_training_stack(synth):
    deployed = synth()
    for stack in ("foundation", "agent", "oversight"):
        assert "mtrl-dev-training" not in json.dumps(deployed.templates[stack])


def test_without_a_job_everything_else_is_provisioned_and_unchanged(synth):
    with_job, without = synth(), synth(training__submit_job=False)
    assert without.resources("training", "Custom::TrainingJob") == {}
    for stack in ("foundation", "agent", "oversight"):
        assert with_job.templates[stack] == without.templates[stack]


def test_the_first_step_outlasts_the_waits_of_a_fresh_role_and_an_old_job(synth):
    from stacks.handlers.training_job import REMOVAL_WAIT_S, ROLE_WAIT_S

    function = synth().only("training", "AWS::Lambda::Function", "HandlersJobProviderOnEvent")
    assert function["Properties"]["Timeout"] > REMOVAL_WAIT_S + ROLE_WAIT_S + 60


def test_the_waiter_answers_before_cloudformation_gives_up(synth):
    machine = synth().only("training", "AWS::StepFunctions::StateMachine")
    text = json.dumps(machine["Properties"]["DefinitionString"])
    assert '\\"IntervalSeconds\\":15' in text
    assert '\\"MaxAttempts\\":220' in text  # 15 s x 220 = 55 min


def test_the_handler_may_pass_the_job_role_to_the_job_service_alone(synth):
    role = synth().only("training", "AWS::IAM::Role", "HandlersJobProviderOnEventRole")
    passing = allowing(role, "iam:PassRole")
    assert passing["Condition"] == {
        "StringEquals": {"iam:PassedToService": "job.sagemaker.amazonaws.com"}
    }
    assert passing["Resource"]["Fn::GetAtt"][0].startswith("JobRole")


@pytest.mark.parametrize(("knob", "value"), [("resume_from", "last"), ("start_from", PACKAGE)])
def test_a_run_may_go_on_from_a_checkpoint_or_start_from_a_model(synth, knob, value):
    packages = document(synth(**{f"training__{knob}": value}))["ModelPackageConfig"]
    assert packages["InputModelPackageArn"] == value


def test_the_job_carries_the_hashes_of_what_it_was_made_of(synth):
    tags = json.loads(synth().only("training", "Custom::TrainingJob")["Properties"]["Tags"])
    assert tags.keys() == {"mtrl:deployment", "mtrl:run-id", "mtrl:agent-bundle", "mtrl:dataset"}


def test_the_record_holds_what_the_commands_need(synth):
    record = synth().only("training", "Custom::BucketObjects")["Properties"]["Objects"]
    (entry,) = json.loads(flat(record))
    assert entry["Key"] == "deployment/outputs.json"
    values = json.loads(entry["Body"])
    assert {"runtime_arn", "runtime_endpoint", "job_role_arn", "mlflow_app_arn", "train_uri",
            "validation_uri", "output_uri", "base_model_arn"} <= values.keys()  # fmt: skip


# -- what outlives what --------------------------------------------------------------------------

HOLDING = ("AWS::S3::Bucket", "AWS::SageMaker::MlflowApp", "AWS::SageMaker::ModelPackageGroup")


def test_dev_takes_its_data_along_and_empties_it_first(synth):
    deployed = synth()
    for kind in HOLDING:
        for resource in deployed.resources("foundation", kind).values():
            assert resource.get("DeletionPolicy", "Delete") == "Delete"
    policy, bucket = (
        next(iter(deployed.resources("foundation", kind)))
        for kind in ("AWS::S3::BucketPolicy", "AWS::S3::Bucket")
    )
    emptied = deployed.only("foundation", "Custom::EmptiedBucket")
    assert policy in emptied["DependsOn"]
    assert emptied["Properties"]["Bucket"] == {"Ref": bucket}
    groups = deployed.resources("foundation", "AWS::SageMaker::ModelPackageGroup")
    waits = deployed.only("foundation", "Custom::EmptiedPackageGroups")["DependsOn"]
    assert set(groups) <= set(waits)


def test_prod_keeps_its_data(synth):
    deployed = synth("prod")
    for kind in HOLDING:
        for resource in deployed.resources("foundation", kind).values():
            assert resource["DeletionPolicy"] == "Retain"
    assert not deployed.resources("foundation", "Custom::EmptiedBucket")
    assert not deployed.resources("foundation", "Custom::EmptiedPackageGroups")


def test_every_log_group_has_a_retention_and_no_function_can_make_another(synth):
    deployed = synth()
    for stack in STACKS:
        for group in deployed.resources(stack, "AWS::Logs::LogGroup").values():
            assert group["Properties"]["RetentionInDays"] == 7
            assert group["DeletionPolicy"] == "Delete"
        for function in deployed.resources(stack, "AWS::Lambda::Function").values():
            assert "LogGroup" in function["Properties"]["LoggingConfig"]
        for name, role in deployed.resources(stack, "AWS::IAM::Role").items():
            if name.startswith("Handlers"):
                assert not role["Properties"].get("ManagedPolicyArns")


def test_the_bucket_is_closed(synth):
    deployed = synth()
    bucket = deployed.only("foundation", "AWS::S3::Bucket")["Properties"]
    assert all(bucket["PublicAccessBlockConfiguration"].values())
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    policy = deployed.only("foundation", "AWS::S3::BucketPolicy")["Properties"]["PolicyDocument"]
    assert {"Bool": {"aws:SecureTransport": "false"}} in [
        s.get("Condition") for s in policy["Statement"] if s["Effect"] == "Deny"
    ]
    (rule,) = bucket["LifecycleConfiguration"]["Rules"]
    assert rule["NoncurrentVersionExpiration"] and rule["AbortIncompleteMultipartUpload"]


def test_the_mlflow_app_and_its_role_have_names_of_their_own(synth):
    app = synth().only("foundation", "AWS::SageMaker::MlflowApp")["Properties"]
    assert app["Name"] == "mtrl-dev-mlflow-app"
    role = synth().only("foundation", "AWS::IAM::Role", "MlflowRole")
    assert {a.split(":")[0] for a in actions(role)} == {"s3"}


# -- oversight -----------------------------------------------------------------------------------


def test_the_budget_guard_may_stop_this_deployments_jobs_and_no_others(synth):
    role = synth().only("oversight", "AWS::IAM::Role", "HandlersBudgetGuardRole")
    resources = allowing(role, "sagemaker:StopJob")["Resource"]
    assert [flat(r).split(":job/")[1] for r in resources] == [
        "AgentRFT/mtrl-dev-*",
        "AgentRFTEvaluation/mtrl-dev-*",
    ]


def test_the_budget_guard_runs_on_its_schedule_with_the_models_prices(synth):
    deployed = synth(budget__check_every_minutes=10)
    rule = deployed.only("oversight", "AWS::Events::Rule", "BudgetSchedule")
    assert rule["Properties"]["ScheduleExpression"] == "rate(10 minutes)"
    variables = deployed.only("oversight", "AWS::Lambda::Function")["Properties"]["Environment"]
    assert variables["Variables"]["PRICE_TRAIN"] == "0.36"


def test_a_model_without_a_known_price_needs_prices_in_the_budget(synth):
    with pytest.raises(InputError, match="no token price is known"):
        synth(region="us-west-2")
    own = {"prefill": 1, "sample": 2, "train": 3}
    deployed = synth(region="us-west-2", budget__prices=own)
    variables = deployed.only("oversight", "AWS::Lambda::Function")["Properties"]["Environment"]
    assert float(variables["Variables"]["PRICE_TRAIN"]) == 3


def test_events_of_the_jobs_reach_the_topic(synth):
    rule = synth().only("oversight", "AWS::Events::Rule", "JobEvents")["Properties"]
    prefixes = [flat(r["prefix"]).split(":job/")[1] for r in rule["EventPattern"]["resources"]]
    assert prefixes == ["AgentRFT/mtrl-dev-", "AgentRFTEvaluation/mtrl-dev-"]
    policy = synth().only("foundation", "AWS::SNS::TopicPolicy")["Properties"]["PolicyDocument"]
    assert {"Service": "events.amazonaws.com"} in [s.get("Principal") for s in policy["Statement"]]
