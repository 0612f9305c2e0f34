"""What holds for all templates together: order, no ties, linters, records, and what others met."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.stacks.roles import actions

ROOT = Path(__file__).resolve().parents[2]
STACKS = ("foundation", "agent", "oversight", "training")
VPC = {"subnet_ids": ["subnet-12345678"], "security_group_ids": ["sg-12345678"]}


def test_one_region_and_no_account(synth):
    text = json.dumps(synth().templates)
    assert "us-west-2" not in text
    assert "cdk-hnb659fds-assets-${AWS::AccountId}-us-east-1" in text


def test_no_export_ties_two_stacks_together(synth):
    for template in synth().templates.values():
        assert "Fn::ImportValue" not in json.dumps(template)
        assert not [o for o in template.get("Outputs", {}).values() if "Export" in o]


def test_stacks_deploy_in_order_and_go_in_reverse(synth):
    manifest = json.loads((synth().folder / "manifest.json").read_text())["artifacts"]
    order = [f"mtrl-dev-{stack}" for stack in STACKS]
    for earlier, later in pairwise(order):
        assert earlier in manifest[later]["dependencies"]


def test_the_same_settings_give_the_same_templates(synth, sources, app_options, tmp_path):
    from aws_cdk import App

    from stacks.deployment import build
    from stacks.settings import load_settings

    first = synth()
    app = App(outdir=str(tmp_path), **app_options)
    build(app, load_settings("dev"), sources)
    app.synth()
    for path in sorted(first.folder.iterdir()):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_synthesis_warns_of_nothing(synth):
    for path in synth().folder.glob("*.metadata.json"):
        assert "aws:cdk:warning" not in path.read_text()


def test_cfn_lint_finds_nothing(synth):
    """W3005 apart: CDK states dependencies that a reference implies too."""
    folders = [synth().folder, synth("prod").folder, synth(agent__vpc=VPC).folder]
    paths = [str(path) for folder in folders for path in folder.glob("*.template.json")]
    lint = Path(sys.executable).with_name("cfn-lint")
    done = subprocess.run([str(lint), "-i", "W3005", "--", *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_cdks_own_check_of_the_templates_finds_nothing(tmp_path):
    from aws_cdk import App

    from stacks.deployment import build
    from stacks.settings import load_settings

    app = App(outdir=str(tmp_path), builtin_cloud_formation_validation=True)
    build(app, load_settings("dev"), ROOT)
    app.synth()
    report = json.loads((tmp_path / "validation-report.json").read_text())
    assert [r for r in report["pluginReports"] if r["violations"]] == []


@pytest.mark.parametrize("stack", STACKS)
def test_the_template_is_as_recorded(synth, stack):
    """Rewrite the record with UPDATE_SNAPSHOTS=1 after looking at the difference."""
    text = json.dumps(synth().templates[stack], indent=1, sort_keys=True)
    text = re.sub(r"\b[0-9a-f]{64}\b", "<hash>", text)
    text = re.sub(r"spec_?[0-9a-f]{12}[0-9A-F]{0,8}", "<spec>", text)
    text = re.sub(r"datasets/[0-9a-f]{16}", "datasets/<hash>", text)
    text = re.sub(r'(dataset(?:_hash)?\\+": ?\\+")[0-9a-f]{12}', r"\1<hash>", text)
    text = re.sub(r'("Value": ")[0-9a-f]{12}"', r'\1<hash>"', text)
    path = Path(__file__).parent / "snapshots" / f"{stack}.json"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    assert path.read_text() == text + "\n"


# -- complaints about stacks like these, see docs/troubleshooting.md -----------------------------


def test_nothing_deployed_may_change_a_runtime_behind_cloudformations_back(synth):
    for stack in STACKS:
        for role in synth().resources(stack, "AWS::IAM::Role").values():
            assert not [a for a in actions(role) if "Update" in a and "AgentRuntime" in a]


def test_policies_are_part_of_their_roles_so_nothing_starts_before_it_may(synth):
    """The Provider framework alone attaches some, and its functions wait for them."""
    for stack in STACKS:
        policies = synth().resources(stack, "AWS::IAM::Policy")
        assert all("Provider" in name for name in policies)
        waiting = json.dumps(
            [r.get("DependsOn", []) for r in synth().templates[stack]["Resources"].values()]
        )
        assert all(name in waiting for name in policies)


def test_what_others_had_trouble_with_is_not_used(synth):
    kinds = {r["Type"] for t in synth().templates.values() for r in t["Resources"].values()}
    assert "Custom::CDKBucketDeployment" not in kinds
    assert "Custom::S3AutoDeleteObjects" not in kinds
    assert "AWS::SageMaker::MlflowTrackingServer" not in kinds
    assert "AWS::EC2::VPC" not in kinds


def test_every_custom_resource_answers_through_the_framework(synth):
    for stack in STACKS:
        for body in synth().templates[stack]["Resources"].values():
            if body["Type"].startswith("Custom::"):
                assert "framework" in body["Properties"]["ServiceToken"]["Fn::GetAtt"][0]


def test_the_agents_lock_has_no_heavy_sdk():
    lock = (ROOT / "agent" / "requirements.txt").read_text()
    assert not re.search(r"^(sagemaker|torch|numpy|pandas)==", lock, re.MULTILINE)
