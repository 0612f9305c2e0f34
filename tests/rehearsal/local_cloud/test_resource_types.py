"""The adapter to ministack: the pinned version has what it touches, and all our types are known."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
LOCAL_CLOUD = ROOT / "rehearsal" / "local_cloud"
PYTHON = ROOT / ".local-cloud" / "venv" / "bin" / "python"
SNAPSHOTS = sorted((ROOT / "tests" / "stacks" / "snapshots").glob("*.json"))


def inside(program: str) -> str:
    """Run a program where ministack is installed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "AWS_REGION": "us-east-1"}
    done = subprocess.run(
        [str(PYTHON), "-c", program], env=environment, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_every_type_of_the_templates_has_a_handler_that_creates_and_one_that_deletes():
    kinds = {
        resource["Type"]
        for path in SNAPSHOTS
        for resource in json.loads(path.read_text())["Resources"].values()
    }
    assert "AWS::SageMaker::MlflowApp" in kinds
    known = json.loads(
        inside(
            "import json\n"
            "import rehearsal.local_cloud.resource_types\n"
            "from ministack.services.cloudformation.provisioners import _RESOURCE_HANDLERS as t\n"
            "print(json.dumps([k for k, v in t.items() if {'create', 'delete'} <= v.keys()]))"
        )
    )
    missing = {k for k in kinds if not k.startswith("Custom::")} - set(known)
    assert not missing


def test_the_adapter_adds_only_what_ministack_lacks():
    already = inside(
        "from ministack.services.cloudformation.provisioners import _RESOURCE_HANDLERS as t\n"
        "before = set(t)\n"
        "from rehearsal.local_cloud.resource_types import handlers\n"
        "print(sorted(before & handlers().keys()))"
    )
    assert already == "[]", "a newer ministack knows these itself: drop them from the adapter"


def test_names_are_spelled_as_the_api_wants_them_and_variables_keep_theirs():
    shown = inside(
        "import json\n"
        "from rehearsal.local_cloud.resource_types import _camel\n"
        "print(json.dumps(_camel({'RoleArn': 'r', 'EnvironmentVariables': {'AGENT_TASK': 'w'},"
        " 'A': [{'BigB': 1}]})))"
    )
    assert json.loads(shown) == {
        "roleArn": "r",
        "environmentVariables": {"AGENT_TASK": "w"},
        "a": [{"bigB": 1}],
    }


def test_the_lock_pins_the_version_whose_insides_the_adapter_knows():
    pinned = re.search(r"^ministack==(\S+)", (LOCAL_CLOUD / "requirements.in").read_text(), re.M)
    assert pinned is not None
    assert f"ministack=={pinned[1]} " in (LOCAL_CLOUD / "requirements.txt").read_text()
    assert (
        inside("from importlib.metadata import version; print(version('ministack'))") == (pinned[1])
    )
