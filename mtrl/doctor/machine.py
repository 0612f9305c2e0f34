"""Checks of this machine: what deploying and submitting need."""

from __future__ import annotations

from botocore.exceptions import ClientError

from mtrl.aws import is_missing
from mtrl.doctor.check import Check, Subject, Verdict, failed, ok
from mtrl.doctor.programs import numbers

PYTHON = ((3, 11), (3, 15))
"""From, and below; pyproject.toml's requires-python."""
NODE = (20,)
"""The oldest release line that the CDK runs on."""
BOTOCORE = (1, 43, 37)
"""The first release that knows CreateJob."""
BOOTSTRAP_VERSION = 6
"""Least version of the bootstrap stack that the CDK's own templates demand."""
BOOTSTRAP_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
MAKE_SETUP = "make setup"


def python(subject: Subject) -> Verdict:
    """Is this interpreter one that the project supports?"""
    found = subject.programs.python()
    if PYTHON[0] <= numbers(found)[:2] < PYTHON[1]:
        return ok(f"Python {found}")
    return failed(
        f"Python {found}; 3.11 to 3.14 are supported",
        f"make clean && PYTHON=python3.13 {MAKE_SETUP}",
    )


def node(subject: Subject) -> Verdict:
    """Is there a Node.js that the CDK runs on?"""
    found = subject.programs.command("node")
    if found is None:
        return failed("there is no Node.js", "install Node.js 22 (https://nodejs.org)")
    if numbers(found)[:1] < NODE:
        return failed(f"Node.js {found} is too old", "install Node.js 22 (https://nodejs.org)")
    return ok(f"Node.js {found}")


def uv(subject: Subject) -> Verdict:
    """Is there a uv to build the agent's bundle with?"""
    found = subject.programs.command("uv", subject.programs.own_folder())
    return ok(found) if found else failed("there is no uv in this environment", MAKE_SETUP)


def cdk(subject: Subject) -> Verdict:
    """Is there a CDK command to deploy with?"""
    found = subject.programs.command("cdk", subject.root / "node_modules" / ".bin")
    return ok(f"CDK {found}") if found else failed("there is no cdk command", "npm install aws-cdk")


def aws_client(subject: Subject) -> Verdict:
    """Does the AWS client know the job API?"""
    found = subject.programs.package("botocore") or "none"
    if numbers(found) < BOTOCORE:
        oldest = ".".join(map(str, BOTOCORE))
        return failed(f"botocore {found}; {oldest} or newer is needed", MAKE_SETUP)
    if not hasattr(subject.cloud.client("sagemaker"), "create_job"):
        return failed(
            f"botocore {found} loads a SageMaker model without CreateJob",
            "unset AWS_DATA_PATH, or remove ~/.aws/models/sagemaker",
        )
    return ok(f"botocore {found}")


def bootstrap(subject: Subject) -> Verdict:
    """Has the CDK been bootstrapped in the account and Region?"""
    region = subject.cloud.region
    fix = f"npx cdk bootstrap aws://{subject.caller['Account']}/{region}"
    try:
        answer = subject.cloud.client("ssm").get_parameter(Name=BOOTSTRAP_PARAMETER)
    except ClientError as error:
        if is_missing(error) or error.response["Error"]["Code"] == "ParameterNotFound":
            return failed(f"the CDK is not bootstrapped in {region}", fix)
        raise
    found = answer["Parameter"]["Value"]
    if numbers(found) < (BOOTSTRAP_VERSION,):
        return failed(f"the CDK's bootstrap stack is at version {found}, older than 6", fix)
    return ok(f"CDK bootstrap version {found}")


CHECKS = (
    Check("python", "machine", "other versions were not tried.", python, asks_cloud=False),
    Check("node", "machine", "cdk deploy runs on Node.js.", node, asks_cloud=False),
    Check("uv", "machine", "it installs the agent's arm64 wheels.", uv, asks_cloud=False),
    Check("cdk", "machine", "the stacks are deployed with it.", cdk, asks_cloud=False),
    Check(
        "botocore",
        "machine",
        "an older client knows neither CreateJob nor MLflow Apps.",
        aws_client,
        asks_cloud=False,
    ),
    Check("cdk-bootstrap", "machine", "without it cdk deploy has no bucket or roles.", bootstrap),
)
