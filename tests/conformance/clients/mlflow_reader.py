"""MLflow's own client reads a run, and the SDK its job's metrics.

Reads {"uri", "run", "metrics", "job"} from standard input; without a job the SDK is not asked.
"""

# pyright: reportMissingImports=false
# The SDK is installed in an environment of its own.
from __future__ import annotations

import json
import sys

from mlflow.tracking import MlflowClient
from sagemaker.train.agent_rft_job import AgentRFTJob


def main() -> None:
    """Read."""
    given = json.load(sys.stdin)
    client = MlflowClient(tracking_uri=given["uri"])
    found = client.get_run(given["run"])
    metrics = {
        name: [[m.step, m.value] for m in client.get_metric_history(given["run"], name)]
        for name in given["metrics"]
    }
    rows = AgentRFTJob.get(given["job"]).get_training_metrics() if given["job"] else []
    print(json.dumps({"status": found.info.status, "metrics": metrics, "sdk": rows}))


if __name__ == "__main__":
    main()
