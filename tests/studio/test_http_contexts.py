"""The indexes of workspaces over HTTP: built in the background, followed, stopped, searched, deleted."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from tests.http_door import Door, open_door, sse_messages

from lockstitch.state.errors import SystemFaultError
from lockstitch.studio import builds
from lockstitch.studio.builds import Place
from lockstitch.studio.http import contexts
from lockstitch.tools.code_index.build_lock import hold_index
from lockstitch.tools.code_index.encoder import Encoder
from lockstitch.tools.code_index.index_file import IndexFile
from lockstitch.tools.code_index.indexes import Indexes

CONTEXTS = "/api/code-chat/contexts"
PATIENCE_S = 60.0  # for a loaded machine
SOURCE = "def pay_invoice():\n    return 1\n\n\ndef grow_tree():\n    return 2\n"


@asynccontextmanager
async def door_at(tmp_path: Path, **settings: Any) -> AsyncIterator[Door]:
    async with open_door(tmp_path, "- say: One.\n", **{"embeddings": "off", **settings}) as door:
        (door.workspace / "shop.py").write_text(SOURCE)
        yield door


def write_many(door: Door) -> None:
    """More than one batch: a stop is heard between two."""
    for number in range(40):
        (door.workspace / f"f{number}.py").write_text(f"def f{number}():\n    return {number}\n")


async def built(door: Door, name: str = "default", **given: Any) -> dict[str, Any]:
    assert (await door.post(CONTEXTS, {"name": name, **given})).status_code == 202
    await door.board.builds.rest()
    item: dict[str, Any] = (await door.get(f"{CONTEXTS}/{name}")).json()
    return item


class Held(Embeddings):
    """Encodes when it may: a build that a test can meet in its middle."""

    def __init__(self) -> None:
        self.asked, self.may = threading.Event(), threading.Event()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked.set()
        assert self.may.wait(PATIENCE_S)
        return [[1.0, 0.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.0]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    embeddings = Held()
    monkeypatch.setattr(builds, "find_encoder", lambda settings: Encoder("held", embeddings))
    yield embeddings
    embeddings.may.set()


async def test_index_is_built_listed_searched_refreshed_and_deleted(tmp_path: Path) -> None:
    async with door_at(tmp_path) as door:
        reply = await door.post(CONTEXTS, {})
        assert (reply.status_code, reply.json()["building"], reply.json()["files"]) == (202, True, 0)
        await door.board.builds.rest()
        (item,) = (await door.get(CONTEXTS)).json()["contexts"]
        assert (item["name"], item["path"]) == ("default", str(door.workspace.resolve()))
        assert (item["files"], item["chunks"], item["complete"], item["building"]) == (1, 2, True, False)
        found = (await door.post(f"{CONTEXTS}/default/search", {"query": "paying invoices"})).json()
        assert (found["results"][0]["symbol"], found["results"][0]["first_line"]) == ("pay_invoice", 1)
        assert "by words alone" in found["notices"][0]
        (door.workspace / "new.py").write_text("def new():\n    return 1\n")
        assert (await door.post(f"{CONTEXTS}/default/refresh")).status_code == 202
        await door.board.builds.rest()
        assert (await door.get(f"{CONTEXTS}/default")).json()["files"] == 2
        assert (await door.client.delete(f"{CONTEXTS}/default")).status_code == 200
        assert (await door.get(CONTEXTS)).json() == {"contexts": []}


@pytest.mark.parametrize("verb", ["refresh", "stop", "search"])
async def test_index_that_is_not_there_is_not_found(tmp_path: Path, verb: str) -> None:
    async with door_at(tmp_path) as door:
        body = {"query": "x"} if verb == "search" else None
        reply = await door.post(f"{CONTEXTS}/none/{verb}", body)
        assert (reply.status_code, reply.json()["error"]) == (404, "not_found")


@pytest.mark.parametrize("name", ["a.b", "-x", "x" * 41, "a b"])
async def test_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    async with door_at(tmp_path) as door:
        reply = await door.post(CONTEXTS, {"name": name})
        assert (reply.status_code, [f["field"] for f in reply.json()["fields"]]) == (400, ["name"])
        assert (await door.get(f"{CONTEXTS}/{name}")).status_code == 400


async def test_folder_outside_of_the_roots_is_refused_and_its_indexes_are_not_told(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with door_at(tmp_path) as door:
        with Indexes(tmp_path / "home", outside.resolve()).open("secret"):
            pass
        for reply in (
            await door.post(CONTEXTS, {"path": str(outside)}),
            await door.get(CONTEXTS, params={"path": str(outside)}),
            await door.get(f"{CONTEXTS}/secret", params={"path": str(outside)}),
        ):
            assert (reply.status_code, reply.json()["error"]) == (403, "outside")
        assert (await door.get(f"{CONTEXTS}/secret")).status_code == 404
        assert (await door.get(CONTEXTS)).json() == {"contexts": []}


async def test_index_is_found_by_its_name_alone_unless_several_workspaces_have_it(tmp_path: Path) -> None:
    async with door_at(tmp_path) as door:
        for name in ("one", "two"):
            (door.workspace / name).mkdir()
        one, two = str(door.workspace.resolve() / "one"), str(door.workspace.resolve() / "two")
        assert (await built(door, "docs", path=one))["path"] == one
        assert (await door.post(CONTEXTS, {"name": "docs", "path": two})).status_code == 202
        await door.board.builds.rest()
        reply = await door.post(f"{CONTEXTS}/docs/refresh")
        assert (reply.status_code, reply.json()["error"]) == (409, "ambiguous")
        assert (await door.get(f"{CONTEXTS}/docs", params={"path": two})).json()["path"] == two
        assert len((await door.get(CONTEXTS)).json()["contexts"]) == 2
        assert len((await door.get(CONTEXTS, params={"path": one})).json()["contexts"]) == 1
        own = str(door.workspace.resolve())
        assert (await built(door, "docs"))["path"] == own


async def test_build_is_followed_stopped_and_goes_on(tmp_path: Path, held: Held) -> None:
    async with door_at(tmp_path) as door:
        write_many(door)
        await door.post(CONTEXTS, {})
        assert await asyncio.to_thread(held.asked.wait, PATIENCE_S)
        item = (await door.get(f"{CONTEXTS}/default")).json()
        assert item["building"]
        assert item["progress"] == {"phase": "meaning", "done": 0, "total": 42}
        assert item["chunks"] == 42  # words find it already
        stream = contexts._pieces(Place(door.workspace.resolve(), "default"), door.desk)
        first = await anext(stream)  # before the stop: over HTTP the transport of tests shows the whole alone
        stopped = await door.post(f"{CONTEXTS}/default/stop")
        assert stopped.json()["message"] == "The build is being stopped."
        held.may.set()
        pieces = [first, *[piece async for piece in stream]]
        bodies = [message["data"] for message in sse_messages("".join(pieces))]
        assert (bodies[0]["building"], bodies[-1]["building"]) == (True, False)
        assert (bodies[-1]["complete"], bodies[-1]["encoded"]) == (False, 32)
        await door.post(f"{CONTEXTS}/default/refresh")
        await door.board.builds.rest()
        over = await door.get(f"{CONTEXTS}/default", headers={"accept": "text/event-stream"})
        (message,) = sse_messages(over.text)
        item = message["data"]
        assert (item["complete"], item["encoded"], item["model"]) == (True, 42, "held")


async def test_second_request_joins_the_build_that_goes_on(tmp_path: Path, held: Held) -> None:
    async with door_at(tmp_path) as door:
        await door.post(CONTEXTS, {})
        assert await asyncio.to_thread(held.asked.wait, PATIENCE_S)
        again = await door.post(f"{CONTEXTS}/default/refresh")
        assert (again.status_code, again.json()["building"]) == (202, True)
        gone = await door.client.delete(f"{CONTEXTS}/default")
        assert (gone.status_code, gone.json()["error"]) == (409, "busy")
        found = (await door.post(f"{CONTEXTS}/default/search", {"query": "invoice"})).json()
        assert found["results"][0]["symbol"] == "pay_invoice"  # searched while it is built
        assert any("refreshes the index" in notice for notice in found["notices"])
        held.may.set()


async def test_end_of_the_server_stops_builds_in_good_order(tmp_path: Path, held: Held) -> None:
    async with door_at(tmp_path) as door:
        write_many(door)
        await door.post(CONTEXTS, {})
        assert await asyncio.to_thread(held.asked.wait, PATIENCE_S)
        closing = asyncio.create_task(door.board.builds.close())
        await asyncio.sleep(0)
        held.may.set()
        await closing
        item = (await door.get(f"{CONTEXTS}/default")).json()
        assert (item["building"], item["complete"], item["encoded"]) == (False, False, 32)
        assert (await door.post(CONTEXTS, {})).status_code == 500


async def test_index_that_another_process_builds_is_refused(tmp_path: Path) -> None:
    async with door_at(tmp_path) as door:
        await built(door)
        with hold_index(Indexes(tmp_path / "home", door.workspace.resolve()).path(None)):
            for reply in (await door.post(CONTEXTS, {}), await door.client.delete(f"{CONTEXTS}/default")):
                assert (reply.status_code, reply.json()["error"]) == (409, "busy")
                assert reply.json()["message"].startswith("Another process builds this index")


async def test_full_disk_is_told_and_leaves_the_old_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door_at(tmp_path) as door:
        await built(door)
        (door.workspace / "new.py").write_text("def new():\n    return 1\n")

        def fail(*_: Any, **__: Any) -> None:
            raise SystemFaultError("default.db could not be written: the disk is full.")

        monkeypatch.setattr(IndexFile, "put_file", fail)
        item = await built(door)
        assert item["error"] == "default.db could not be written: the disk is full."
        assert item["files"] == 1
        monkeypatch.undo()
        item = await built(door)
        assert (item["error"], item["files"]) == (None, 2)


async def test_fault_of_ours_is_not_told_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("/secret")

    async with door_at(tmp_path) as door:
        monkeypatch.setattr(builds, "refresh_index", fail)
        assert (await built(door))["error"] == builds.OUR_FAULT


async def test_index_of_another_model_is_encoded_anew_and_says_so(tmp_path: Path, held: Held) -> None:
    held.may.set()
    async with door_at(tmp_path) as door:
        with Indexes(tmp_path / "home", door.workspace.resolve()).open(None) as index:
            index.set_meta("model", "old")
        item = await built(door)
        assert item["notice"] == "The index was of another model and was encoded anew."
        assert (item["model"], item["encoded"]) == ("held", 2)
        assert (await built(door))["notice"] is None


async def test_builds_wait_for_each_other(tmp_path: Path, held: Held) -> None:
    async with door_at(tmp_path) as door:
        for name in ("one", "two"):
            await door.post(CONTEXTS, {"name": name})
        assert await asyncio.to_thread(held.asked.wait, PATIENCE_S)
        two = (await door.get(f"{CONTEXTS}/two")).json()
        assert (two["building"], two["progress"], two["files"]) == (True, None, 0)
        held.may.set()
        await door.board.builds.rest()
        assert (await door.get(f"{CONTEXTS}/two")).json()["complete"]


async def test_what_a_rule_denies_is_not_found(tmp_path: Path) -> None:
    async with door_at(tmp_path) as door:
        await built(door)
        rule = '[[rule]]\ndecision = "deny"\ntool = "search_code"\npath = "shop.py"\n'
        (tmp_path / "home" / "policy.toml").write_text(rule)
        found = (await door.post(f"{CONTEXTS}/default/search", {"query": "invoice"})).json()
        assert found["results"] == []
