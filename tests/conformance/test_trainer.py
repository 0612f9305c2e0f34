"""The SDK's MultiTurnRLTrainer and MLflow's REST client against a rehearsal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mtrl.job import hyperparameters

pytestmark = pytest.mark.slow
STEPS = 2
VALUES = {"global_batch_size": 32, "group_size": 2, "max_steps": STEPS, "val_every": 0}
METRICS = ("rollout/reward/mean", "rollout/turns/mean", "training/num_trajectories")


def trainer(cloud: Any, **changes: Any) -> dict[str, Any]:
    """Arguments of the SDK's trainer."""
    env = cloud.environment
    return {
        "model": "openai-reasoning-gpt-oss-20b",
        "agent_env": f"{env.runtime_arn}-abcdefghij",
        "training_dataset": cloud.put_rows("train.jsonl", "train", 32 * STEPS),
        "mlflow_app_arn": env.mlflow_arn,
        "mlflow_experiment_name": "sdk",
        "s3_output_path": env.uri("output"),
        "output_model_package_group": env.output_group_arn,
        "intermediate_checkpoint_model_package_group": env.checkpoint_group_arn,
        "role": env.role_arn,
        "base_job_name": "sdk",
        "accept_eula": True,
        **changes,
    }


@pytest.fixture(scope="module")
def trained(rehearsal: Any) -> dict[str, Any]:
    """What the SDK read of the job that it submitted and waited for."""
    cloud, sdk = rehearsal
    return sdk.run("trainer.py", {"trainer": trainer(cloud), "hyperparameters": VALUES})


def test_the_trainer_submits_waits_for_and_reads_back_a_job(
    rehearsal: Any, trained: dict[str, Any]
) -> None:
    cloud, _ = rehearsal
    view = cloud.view(trained["name"])
    assert (trained["status"], trained["secondary"]) == ("Completed", "Completed")
    assert trained["progress"] == {"MaxSteps": STEPS, "CurrentStep": STEPS}
    assert trained["transitions"][0] == "Starting"
    assert "Training" in trained["transitions"]
    assert trained["tokens"]["TrainTokenCount"] == view.tokens.train > 0
    assert trained["output_package"] == view.output["OutputModelPackageArn"]
    assert trained["mlflow"]["RunId"] == view.output["MlflowDetails"]["RunId"]
    assert trained["output_path"] == cloud.environment.uri("output")
    assert trained["listed"] == [trained["name"]]


def test_the_trainer_sends_the_changed_hyperparameters_and_the_models_versioned_arn(
    trained: dict[str, Any],
) -> None:
    sent = {name: int(value) for name, value in trained["training"]["HyperParameters"].items()}
    assert sent == VALUES
    assert trained["training"]["BaseModelArn"].endswith("openai-reasoning-gpt-oss-20b/1.0.0")


def test_the_trainer_knows_every_hyperparameter_with_its_documented_default(
    trained: dict[str, Any],
) -> None:
    known = hyperparameters.TRAINING
    assert set(trained["defaults"]) == set(known)
    for name, spec in known.items():
        if name not in VALUES:
            assert spec.parse(name, trained["defaults"][name]) == spec.default, name


def test_mlflow_reads_the_run_over_rest_and_as_a_file(
    rehearsal: Any, trained: dict[str, Any], ports: Any
) -> None:
    cloud, sdk = rehearsal
    database = f"sqlite:///{cloud.parts.service.log.parent}/service/mlflow.db"
    port = ports()
    command = ["mlflow", "server", "--workers", "1", "--port", str(port)]
    command += ["--backend-store-uri", database]
    given = {"run": trained["mlflow"]["RunId"], "metrics": METRICS, "job": trained["name"]}
    off = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with sdk.serving(command, port, "/health", **off) as url:
        read = sdk.run(
            "mlflow_reader.py",
            given | {"uri": url},
            SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT=url,
        )
    as_file = sdk.run("mlflow_reader.py", given | {"uri": database, "job": None})
    assert read["metrics"] == as_file["metrics"]
    for name in METRICS:
        assert [step for step, _ in read["metrics"][name]] == list(range(1, STEPS + 1))
    assert read["status"] == "FINISHED"
    # The SDK's own table of a job's metrics.
    assert [row["step"] for row in read["sdk"]] == list(range(1, STEPS + 1))
    assert read["sdk"][0]["training/num_trajectories"] == 64


def test_the_trainer_refuses_a_role_that_trusts_the_job_service_alone(rehearsals: Any) -> None:
    """Why a deployment has a switch for the second principal."""
    with rehearsals.start(["--role-trust", "job.sagemaker.amazonaws.com"], agents=0) as (
        cloud,
        sdk,
    ):
        given = {"trainer": trainer(cloud), "hyperparameters": VALUES}
        refused = sdk.attempt("trainer.py", given)
        assert refused.returncode != 0
        assert "RoleValidationError" in refused.stderr
        assert cloud.sagemaker.list_jobs(JobCategory="AgentRFT")["JobSummaries"] == []


def test_a_hyperparameter_out_of_range_is_refused_before_a_job_exists(rehearsal: Any) -> None:
    cloud, sdk = rehearsal
    before = cloud.sagemaker.list_jobs(JobCategory="AgentRFT")["JobSummaries"]
    given = {"trainer": trainer(cloud), "hyperparameters": {"group_size": 64}}
    refused = sdk.attempt("trainer.py", given)
    assert refused.returncode != 0
    assert "group_size must be <= 32" in refused.stderr
    assert cloud.sagemaker.list_jobs(JobCategory="AgentRFT")["JobSummaries"] == before


def test_the_document_of_the_trainer_is_the_one_that_mtrl_builds(
    rehearsal: Any, trained: dict[str, Any]
) -> None:
    """Field for field, but for the qualifier's name and the version in the model's ARN."""
    cloud, _ = rehearsal
    described = cloud.sagemaker.describe_job(JobName=trained["name"], JobCategory="AgentRFT")
    theirs = json.loads(described["JobConfigDocument"])
    del theirs["ServiceOutput"]
    ours = cloud.training(cloud.environment.uri("train.jsonl"), max_steps=str(STEPS))
    assert set(theirs) == set(ours)
    for section in ("InputDataConfig", "OutputDataConfig", "ModelPackageConfig"):
        assert theirs[section] == ours[section]
    assert set(theirs["TrainingConfig"]) == set(ours["TrainingConfig"])
    assert theirs["TrainingConfig"]["HyperParameters"] == ours["TrainingConfig"]["HyperParameters"]
