"""The zips: the same bytes for the same content, and nothing in them that would not run."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from stacks.constructs import agent_bundle
from stacks.constructs.agent_bundle import (
    ZIPPED_GOAL,
    agent_sources,
    build_agent_bundle,
    check_files,
    check_sizes,
)
from stacks.constructs.handler_bundle import SERVICES, build_handler_bundle
from stacks.constructs.zips import (
    Bundle,
    BundleError,
    foreign_objects,
    kept_zip,
    native_objects,
    requirement_blocks,
    write_zip,
)

ROOT = Path(__file__).resolve().parents[2]
AARCH64 = b"\x7fELF" + bytes(14) + (183).to_bytes(2, "little")
X86_64 = b"\x7fELF" + bytes(14) + (62).to_bytes(2, "little")


@pytest.fixture(scope="module")
def agent() -> Bundle:
    return build_agent_bundle(ROOT, "3.13")


@pytest.fixture(scope="module")
def handlers() -> Bundle:
    return build_handler_bundle(ROOT, "3.14")


def names(bundle: Bundle) -> set[str]:
    return set(zipfile.ZipFile(bundle.path).namelist())


def test_the_same_files_give_the_same_bytes_in_any_order(tmp_path):
    one = write_zip(tmp_path / "1.zip", {"a": b"1", "b": b"2"})
    two = write_zip(tmp_path / "2.zip", {"b": b"2", "a": b"1"})
    assert one.path.read_bytes() == two.path.read_bytes()
    assert one.content_hash == two.content_hash


def test_a_renamed_or_moved_byte_changes_the_hash(tmp_path):
    hashes = {
        write_zip(tmp_path / "z.zip", files).content_hash
        for files in ({"a": b"12"}, {"a1": b"2"}, {"a": b"1", "2": b""}, {"b": b"12"})
    }
    assert len(hashes) == 4


def test_a_kept_zip_is_used_again_and_a_damaged_one_is_made_anew(tmp_path):
    made: list[int] = []

    def make() -> dict[str, bytes]:
        made.append(1)
        return {"a": b"1"}

    first = kept_zip(tmp_path, "x", "k" * 64, make)
    assert kept_zip(tmp_path, "x", "k" * 64, make) == first
    assert len(made) == 1
    first.path.write_bytes(b"broken")
    assert kept_zip(tmp_path, "x", "k" * 64, make) == first
    assert len(made) == 2


def test_objects_for_another_machine_are_found():
    files = {"ok.so": AARCH64, "bad.so": X86_64, "bad.pyd": b"MZ", "text.py": b""}
    assert foreign_objects(files) == ["bad.pyd", "bad.so"]
    with pytest.raises(BundleError, match=r"not built for Linux on arm64: bad\.pyd, bad\.so"):
        check_files(files)


def test_an_import_that_the_zip_cannot_satisfy_is_named():
    files = {"agent/main.py": b"import os\nimport numpy as np\nfrom agent.gone import x\n"}
    with pytest.raises(BundleError) as raised:
        check_files(files)
    assert "agent/main.py imports numpy" in str(raised.value)
    assert "agent/main.py imports agent.gone" in str(raised.value)


def test_a_late_import_is_allowed():
    check_files({"agent/main.py": b"def f():\n    import numpy\n"})


@pytest.mark.parametrize("size", [ZIPPED_GOAL + 1, 251_000_000])
def test_a_zip_that_is_too_large_is_refused(tmp_path, size):
    with pytest.raises(BundleError, match="MB zipped, more than"):
        check_sizes(Bundle(tmp_path, "", zipped_bytes=size, unzipped_bytes=size))


def test_a_zip_that_unpacks_too_large_is_refused(tmp_path):
    with pytest.raises(BundleError, match="MB unzipped, more than 750 MB"):
        check_sizes(Bundle(tmp_path, "", zipped_bytes=1, unzipped_bytes=751_000_000))


def test_requirements_keep_their_hashes_and_a_missing_one_is_named():
    text = "a==1 \\\n    --hash=sha256:x\n    # via b\nb==2 \\\n    --hash=sha256:y\n"
    assert requirement_blocks(text, ["b"]) == "b==2 \\\n    --hash=sha256:y\n"
    with pytest.raises(BundleError, match="not pinned in the lock: c"):
        requirement_blocks(text, ["c"])


def test_a_folder_without_an_entry_point_is_no_agent(tmp_path):
    (tmp_path / "agent").mkdir()
    with pytest.raises(BundleError, match=r"agent/main\.py is missing"):
        agent_sources(tmp_path / "agent")


def test_the_agents_zip_holds_what_runs_and_nothing_of_the_policys_side(agent):
    inside = names(agent)
    assert {"main.py", "agent/main.py", "agent/wordle/task.py", "agent/wordle/words.txt"} <= inside
    ours = {name for name in inside if name.startswith("agent/")}
    assert not [n for n in ours if n.endswith(("behaviours.py", "players.py", "requirements.txt"))]
    assert not [n for n in inside if n.startswith("bin/") or "__pycache__" in n]
    assert not [n for n in inside if n.startswith(("numpy/", "mtrl/", "rehearsal/", "stacks/"))]


def test_the_agents_zip_is_within_the_goal_and_for_arm64_alone(agent):
    assert agent.zipped_bytes <= ZIPPED_GOAL
    archive = zipfile.ZipFile(agent.path)
    files = {info.filename: archive.read(info) for info in archive.infolist()}
    native = native_objects(files)
    assert any("pydantic_core" in name for name in native)
    assert all("x86_64" not in name for name in native)
    assert foreign_objects(files) == []


def test_the_lock_and_every_source_are_part_of_what_names_the_zip(tmp_path):
    for part in ("agent", "stacks", "mtrl"):
        shutil.copytree(ROOT / part, tmp_path / part)
    before = build_handler_bundle(tmp_path, "3.14")
    lock = tmp_path / "agent" / "requirements.txt"
    lock.write_text(lock.read_text() + "# a new pin\n")
    handler = tmp_path / "stacks" / "handlers" / "jobs.py"
    handler.write_text(handler.read_text() + "# changed\n")
    after = build_handler_bundle(tmp_path, "3.14")
    assert before.path != after.path
    assert before.content_hash != after.content_hash


def test_the_agent_starts_importing_from_its_zip(agent, tmp_path):
    """The pure-Python part: native modules come from this machine, all else from the zip."""
    site = tmp_path / "site"
    with zipfile.ZipFile(agent.path) as archive:
        archive.extractall(site)
    for native in list(site.rglob("*.so")):
        top = native.relative_to(site).parts[0]
        shutil.rmtree(site / top, ignore_errors=True)
    here = [p for p in sys.path if p.endswith("site-packages")]
    program = (
        f"import sys; sys.path = [{str(site)!r}, *[p for p in sys.path if 'site-packages' not in p"
        f" and p], *{here!r}]; sys.modules['__main__'].__file__ = 'x'\n"
        "import agent.main, strands, bedrock_agentcore, botocore\n"
        "from agent.task import load_task\n"
        "load_task('wordle')\n"
        "print(agent.main.__file__, strands.__file__, botocore.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(str(site)) == 3


def test_the_launcher_runs_the_agent_and_reports_a_bad_setting(agent, tmp_path):
    (tmp_path / "main.py").write_bytes(agent_bundle.LAUNCHER)
    shutil.copytree(ROOT / "agent", tmp_path / "agent")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "main.py")],
        env={"REASONING_EFFORT": "huge"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "REASONING_EFFORT='huge'" in done.stderr


def test_the_handlers_know_jobs_and_no_service_that_they_do_not_call(handlers, tmp_path):
    program = (
        f"import sys; sys.path = [{str(handlers.path)!r}, *[p for p in sys.path"
        " if 'site-packages' not in p and p]]\n"
        "import importlib, botocore, botocore.session\n"
        "for name in ('training_job', 'runtime_guard', 'budget_guard', 'bucket_objects',\n"
        "             'emptied_bucket', 'package_groups', 'runtime_logs'):\n"
        "    importlib.import_module('stacks.handlers.' + name)\n"
        "print('zip' in botocore.__file__)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
    archive = zipfile.ZipFile(handlers.path)
    data = {n.split("/")[2] for n in archive.namelist() if n.startswith("botocore/data/")}
    assert {name for name in data if "." not in name} == set(SERVICES)
    assert b"CreateJob" in gzip.decompress(archive.read(_model(archive, "sagemaker")))


def _model(archive: zipfile.ZipFile, service: str) -> str:
    found = [n for n in archive.namelist() if n.startswith(f"botocore/data/{service}/")]
    return next(n for n in found if "service-2.json" in n)
