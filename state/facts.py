"""Long-term facts: what the agent knows of a workspace beyond the threads it worked in.

One SQLite file of its own, written through LangGraph's store, so that other programs can read it with that.
LangGraph's store is imported only when there is something to read or write: start-up time is a feature.
"""

import asyncio
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from lockstitch.state.database_file import BUSY_TIMEOUT_S, RETRY_S, connect_database, database_faults
from lockstitch.state.errors import ResourceLimitError
from lockstitch.state.home import prepare_home
from lockstitch.state.settings import load_settings

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore, SearchItem
    from langgraph.store.sqlite import SqliteStore

NAME: Final = "facts.db"
NAMESPACE: Final = "facts"
FACTS_MAX: Final = 200  # a workspace; a run is told them all, and more would fill its context
FACT_CHARS: Final = 500  # of one fact: a sentence or two
ID_DIGITS: Final = 8  # 32 bits: two of 200 facts have the same once in 200,000 workspaces
WORKSPACE_DIGITS: Final = 16  # 64 bits of a sha256: a namespace may hold no dot, and paths do
_RACED: Final = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_BUSY})
_MANY: Final = 1_000_000  # rows of one answer; the store asks for a limit


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One fact; `created_at` is ISO 8601 in UTC."""

    id: str
    text: str
    created_at: str
    thread_id: str
    workspace: str


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class FactStore:
    """The facts of all workspaces. Synchronous and safe in worker threads; opens its file when it must.

    Every method raises HomeUnusableError or SystemFaultError where the file cannot be used.
    """

    def __init__(self, home: Path, *, now: Callable[[], str] = _utc_now) -> None:
        self._path = home / NAME
        self._now = now
        self._lock = threading.Lock()
        self._store: SqliteStore | None = None

    def remember(self, workspace: str, text: str, *, thread_id: str = "") -> Fact:
        """Keep a fact; one that is there already stays as it was.

        Args:
            workspace: the folder's absolute path.
            text: at most FACT_CHARS characters; blanks are folded.
            thread_id: in which it was learned.

        Raises:
            ResourceLimitError: the workspace has as many facts as it may have.
        """
        text = _storable(" ".join(text.split()))
        known = {fact.id: fact for fact in self.facts(workspace)}
        fact_id = hashlib.sha256(text.casefold().encode()).hexdigest()[:ID_DIGITS]
        if fact_id in known:
            return known[fact_id]
        if len(known) >= FACTS_MAX:
            raise ResourceLimitError(
                f"{FACTS_MAX} facts of this workspace are kept already. "
                "Ask the person to delete some with `lockstitch facts --forget ID`."
            )
        value = {
            "text": text,
            "created_at": self._now(),
            "thread_id": thread_id,
            "workspace": _storable(workspace),
        }
        with self._opened() as store:
            store.put(_namespace(workspace), fact_id, value, index=False)
        return Fact(id=fact_id, **value)

    def facts(self, workspace: str) -> list[Fact]:
        """The facts of a workspace, the oldest first."""
        return self._search(_namespace(workspace))

    def all_facts(self) -> list[Fact]:
        """The facts of every workspace, one workspace after the other."""
        return sorted(self._search((NAMESPACE,)), key=lambda fact: fact.workspace)

    def forget(self, workspace: str, fact_id: str) -> bool:
        """Delete a fact; False when there is none of that id."""
        if all(fact.id != fact_id for fact in self.facts(workspace)):
            return False
        with self._opened() as store:
            store.delete(_namespace(workspace), fact_id)
        return True

    def forget_all(self, workspace: str) -> int:
        """Delete the facts of a workspace; how many there were."""
        return sum(self.forget(workspace, fact.id) for fact in self.facts(workspace))

    def close(self) -> None:
        """Close the file, if it was opened; it opens again when it must."""
        with self._lock:
            if self._store is not None:
                self._store.conn.close()
                self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _search(self, namespace: tuple[str, ...]) -> list[Fact]:
        if self._store is None and not self._path.exists():
            return []
        with self._opened() as store:
            found = store.search(namespace, limit=_MANY)
        return sorted(map(_fact, found), key=lambda fact: (fact.created_at, fact.id))

    @contextmanager
    def _opened(self) -> "Iterator[SqliteStore]":
        with self._lock, database_faults(NAME):
            if self._store is None:
                self._store = _open_store(self._path)
            yield self._store


@asynccontextmanager
async def open_default_store() -> "AsyncIterator[BaseStore]":
    """The store of the home that the settings name: `store.path` of langgraph.json.

    Raises as `load_settings`, `prepare_home` and FactStore do.
    """
    path = await asyncio.to_thread(_prepare_default_file)  # the server forbids file work on its event loop
    from langgraph.store.sqlite import AsyncSqliteStore

    async with AsyncSqliteStore.from_conn_string(str(path)) as store:
        await store.conn.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_S * 1000)}")
        await store.setup()
        yield store


def _prepare_default_file() -> Path:
    path = prepare_home(load_settings().home).path / NAME
    with database_faults(NAME):
        _open_store(path).conn.close()
    return path


def _open_store(path: Path) -> "SqliteStore":
    from langgraph.store.sqlite import SqliteStore

    connection = connect_database(path)
    try:
        store = SqliteStore(connection)
        _set_up(store)
    except BaseException:
        connection.close()
        raise
    return store


def _set_up(store: "SqliteStore") -> None:
    """Create or upgrade the tables. Where two processes do so at once, the slower one meets what is there."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            store.setup()
        except sqlite3.Error as error:
            if error.sqlite_errorcode & 0xFF not in _RACED or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
        else:
            return


def _namespace(workspace: str) -> tuple[str, str]:
    return NAMESPACE, hashlib.sha256(os.fsencode(workspace)).hexdigest()[:WORKSPACE_DIGITS]


def _storable(text: str) -> str:
    """The text without lone surrogates, which no JSON in UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode()


def _fact(item: "SearchItem") -> Fact:
    value: dict[str, Any] = item.value
    names = ("text", "created_at", "thread_id", "workspace")
    return Fact(id=item.key, **{name: str(value.get(name, "")) for name in names})
