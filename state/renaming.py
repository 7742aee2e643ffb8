"""Ids and the workspace renamed inside stored values, whatever else they hold.

Works on msgpack itself: of what LangGraph packs into its extensions nothing is built, and everything that is
not renamed keeps its bytes. Ids are unique texts, so they are renamed wherever they stand alone; a folder's
name may also be said in a conversation, so it is renamed only as the value of `workspace`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

WORKSPACE: Final = "workspace"  # the channel of the state, and the field of a row


@dataclass(frozen=True, kw_only=True)
class Names:
    """Old names and their new ones.

    Attributes:
        thread: the ids of the thread.
        ids: of effects.
        workspaces: absolute folders.
    """

    thread: tuple[str, str] = ("", "")
    ids: Mapping[str, str] = field(default_factory=dict)
    workspaces: Mapping[str, str] = field(default_factory=dict)

    def id(self, name: str) -> str:
        """The new id of an effect; one that is not renamed stays."""
        return self.ids.get(name, name)

    def workspace(self, folder: str) -> str:
        """The new folder; one that is not renamed stays."""
        return self.workspaces.get(folder, folder)

    def value(self, kind: str | None, channel: str, data: bytes | None) -> bytes | None:
        """A stored value with the names in it renamed; `channel` is the one it was written to, if any."""
        if kind != "msgpack" or not data or not self._may_hold(data):
            return data
        found = _unpack(data)
        renamed = self._renamed({channel: found} if channel else found)
        return _pack(renamed[channel] if channel else renamed)

    def metadata(self, data: bytes | None) -> bytes | None:
        """A checkpoint's metadata, in which LangGraph's server notes the thread."""
        old, new = self.thread
        if not data or old == new or old.encode() not in data:
            return data
        found = json.loads(data)
        if found.get("thread_id") == old:
            found["thread_id"] = new
        return json.dumps(found, ensure_ascii=False).encode("utf-8", "surrogatepass")

    def _may_hold(self, data: bytes) -> bool:
        return any(name.encode("utf-8", "replace") in data for name in (*self.ids, *self.workspaces))

    def _renamed(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.id(value)
        if isinstance(value, list | tuple):
            if len(value) == 2 and value[0] == WORKSPACE and isinstance(value[1], str):
                return [value[0], self.workspace(value[1])]
            return [self._renamed(item) for item in value]
        if isinstance(value, dict):
            return {key: self._renamed_at(key, item) for key, item in value.items()}
        return value

    def _renamed_at(self, key: object, item: Any) -> Any:
        if key == WORKSPACE and isinstance(item, str):
            return self.workspace(item)
        return self._renamed(item)


def _unpack(data: bytes) -> Any:
    import ormsgpack

    return ormsgpack.unpackb(data, ext_hook=ormsgpack.Ext, option=ormsgpack.OPT_NON_STR_KEYS)


def _pack(value: Any) -> bytes:
    import ormsgpack

    return bytes(ormsgpack.packb(value, option=ormsgpack.OPT_NON_STR_KEYS))
