"""What was made of the objects used last, known by the object itself and not by what it equals."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The newest few pairs. They hold their objects, so that no other one gets the same identity meanwhile.

    Safe in several threads: at worst something is not found.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pairs: OrderedDict[int, tuple[K, V]] = OrderedDict()

    def keep(self, key: K, value: V) -> None:
        """Know the value from now on; forget the oldest where there are too many."""
        self._pairs[id(key)] = key, value
        if len(self._pairs) > self._most:
            self._pairs.popitem(last=False)

    def find(self, key: K) -> V | None:
        """The value of that very object."""
        found = self._pairs.get(id(key))
        return found[1] if found else None

    def take(self, key: K) -> V | None:
        """As `find`; it is forgotten."""
        found = self._pairs.pop(id(key), None)
        return found[1] if found else None
