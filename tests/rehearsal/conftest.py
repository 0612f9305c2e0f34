"""A running service with a real agent, shared by a module's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cloud import Cloud, cloud_starter


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A service with one agent."""
    with cloud_starter(tmp_path_factory.mktemp("cloud"))("shared") as started:
        yield started


@pytest.fixture
def start_cloud(tmp_path: Path) -> Any:
    """Opens further services; see `cloud_starter`."""
    return cloud_starter(tmp_path)
