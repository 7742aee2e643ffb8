import gc
from collections.abc import Iterator

import pytest

from lockstitch.studio.uncollected import uncollected


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_is_made_in_it_is_looked_at_neither_then_nor_later():
    with uncollected():
        assert not gc.isenabled()
        kept = [[number] for number in range(10_000)]
    assert gc.get_freeze_count() >= len(kept)
    assert not any(found is kept for found in gc.get_objects())


def test_the_collector_works_again_afterwards_also_after_an_error():
    with pytest.raises(LookupError), uncollected():
        raise LookupError
    assert gc.isenabled()
