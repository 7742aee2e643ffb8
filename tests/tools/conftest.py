"""What the tests of file tools stand on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A workspace of its own with the tools at hand."""
    desk = Desk(tmp_path)
    yield desk
    desk.context.workspace.close()
