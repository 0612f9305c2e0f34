"""The SageMaker SDK trains: submits a job, waits for it and reads it back.

Reads its arguments as JSON from standard input; the last line of its output is what it read.
"""

# pyright: reportMissingImports=false
# The SDK is installed in an environment of its own.
from __future__ import annotations

import json
import sys
from typing import Any

from sagemaker.train.agent_rft_job import AgentRFTJob
from sagemaker.train.multi_turn_rl_trainer import MultiTurnRLTrainer


def main() -> None:
    """Train."""
    given = json.load(sys.stdin)
    trainer = MultiTurnRLTrainer(**given["trainer"])
    for name, value in given["hyperparameters"].items():
        setattr(trainer.hyperparameters, name, value)
    job = trainer.train(wait=True)
    assert job is not None
    print(json.dumps(facts(job, trainer), default=str))


def facts(job: AgentRFTJob, trainer: MultiTurnRLTrainer) -> dict[str, Any]:
    """What the SDK knows of the job, asked for in each of its ways."""
    again = AgentRFTJob.get(job_name=job.job_name)
    return {
        "name": job.job_name,
        "status": job.job_status,
        "secondary": job.secondary_status,
        "transitions": [entry.status for entry in job.secondary_status_transitions],
        "progress": again.progress_info,
        "tokens": again.billable_token_usage,
        "mlflow": again.mlflow_details,
        "output_package": trainer.output_model_package_arn,
        "output_path": again.s3_output_path,
        "training": again.training_config,
        "agent": again.agent_config,
        "defaults": trainer.hyperparameters.to_dict(),
        "listed": [other.job_name for other in AgentRFTJob.get_all()],
        "took": str(job.end_time - job.creation_time),
    }


if __name__ == "__main__":
    main()
