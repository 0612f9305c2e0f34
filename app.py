"""The CDK entry point: reads the settings and wires the stacks.

cdk deploy --all -c env=dev [-c run_id=... -c submit_job=... -c resume_from=last -c force=true]
"""

from __future__ import annotations

import sys
from pathlib import Path

from aws_cdk import App

from mtrl.errors import InputError
from stacks.constructs.zips import BundleError
from stacks.deployment import build, settings_from_context

ROOT = Path(__file__).resolve().parent


def main() -> int:
    """Synthesise; 2 when a setting is wrong, said by name and without a traceback."""
    # CDK's own template check takes half the time of a synthesis; the tests run it, and cfn-lint.
    # The tree holds numbers that differ from run to run.
    app = App(builtin_cloud_formation_validation=False, tree_metadata=False)
    try:
        build(app, settings_from_context(app.node.get_all_context()), ROOT)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
