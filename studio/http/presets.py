"""Routes at /api/code-chat/presets: the named sets of model choices, and a new one of the client's."""

import asyncio
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter
from pydantic import Field

from lockstitch.graph.models.presets import DEFAULT, FILE, PhaseTiers, Preset, load_presets
from lockstitch.graph.models.source import ConfiguredModels
from lockstitch.graph.models.table_file import home_tables
from lockstitch.graph.models.wish import Tier
from lockstitch.state.errors import HomeUnusableError
from lockstitch.studio.http.choices import check_model
from lockstitch.studio.http.desk import TheDesk
from lockstitch.studio.http.problems import ProblemRoute, RefusedError
from lockstitch.studio.http.schemas import Got, Name, Sent, Temperature

NAME: Final = r"^[A-Za-z0-9_-]{1,64}$"  # a bare key of TOML
TEXT_CHARS: Final = 20_000  # of a system prompt
LIST_MAX: Final = 100  # tools or models in one preset

router = APIRouter(prefix="/code-chat/presets", route_class=ProblemRoute, tags=["code chat"])
_lock = asyncio.Lock()  # of the person's file; no other program of ours writes it


class Tiers(Sent):
    """The tier of each kind of call."""

    plan: Tier = "balanced"
    observe: Tier = "balanced"
    sum_up: Tier = "balanced"
    compact: Tier = "balanced"


class NewPreset(Sent):
    """A preset; what it leaves out is left to the settings."""

    name: Annotated[str, Field(pattern=NAME)] = Field(examples=["careful"])
    description: str = Field(default="", max_length=1000)
    tiers: Tiers = Tiers()
    tools: Annotated[dict[Name, Tier], Field(max_length=LIST_MAX, default_factory=dict)]
    temperature: Temperature | None = None
    reply_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    reasoning_effort: Name | None = None
    system_prompt: str = Field(default="", max_length=TEXT_CHARS, description="added to the end of ours")
    fallbacks: Annotated[list[Name], Field(max_length=LIST_MAX, default_factory=list)]


class PresetItem(Got):
    """One preset; its system prompt and fallbacks are the operator's and not told."""

    name: str
    description: str
    tiers: PhaseTiers
    tools: dict[str, Tier]
    temperature: float | None
    reply_tokens: int | None
    reasoning_effort: str | None


class PresetList(Got):
    """The presets there are; `preset` is the one in force when none is named."""

    presets: list[PresetItem]
    preset: str


@router.get("", summary="List presets")
async def list_presets(desk: TheDesk) -> PresetList:
    """The presets of this server and of the person's own file."""
    found = await asyncio.to_thread(load_presets, desk.settings.home)
    items = [_item(name, preset) for name, preset in found.items()]
    return PresetList(presets=items, preset=desk.settings.preset or DEFAULT)


@router.post(
    "",
    summary="Add a preset",
    status_code=201,
)
async def add_preset(body: NewPreset, desk: TheDesk) -> PresetItem:
    """Add a preset to the person's file; one of ours is replaced by one of its name, none of theirs is."""
    for model in body.fallbacks:
        check_model(model, field="fallbacks")
    async with _lock:
        preset = await asyncio.to_thread(_add, body, desk.settings.home)
    models = desk.parts.models
    if isinstance(models, ConfiguredModels):  # they were loaded at the start
        models.presets[body.name] = preset
    return _item(body.name, preset)


def _item(name: str, preset: Preset) -> PresetItem:
    kept = set(PresetItem.model_fields) - {"name"}
    return PresetItem(name=name, **preset.model_dump(include=kept))


def _add(body: NewPreset, home: Path) -> Preset:
    """Append the preset to the file, whose other lines and comments stay as they are."""
    import tomlkit  # 30 ms, for the few who add one

    table = body.model_dump(exclude={"name"}, exclude_defaults=True, exclude_none=True)
    preset = Preset.model_validate(table)
    if body.name in home_tables(home, FILE):
        raise RefusedError(409, "taken", "There is a preset of that name: choose another.", field="name")
    try:
        with (home / FILE).open("a", encoding="utf-8") as file:
            file.write("\n" + tomlkit.dumps({body.name: table}))
    except OSError as error:
        raise HomeUnusableError(f"{FILE} in the home folder cannot be written: {error.strerror}.") from error
    return preset
