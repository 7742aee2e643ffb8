"""Presets: named sets of model choices, ours and those of the person's own file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lockstitch.graph.models.table_file import home_tables, misfit, shipped_tables
from lockstitch.graph.models.wish import Phase, Tier

FILE: Final = "presets.toml"
DEFAULT: Final = "balanced"
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)  # from the weakest to the strongest


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PhaseTiers(_Table):
    """The tier of each kind of call."""

    plan: Tier = "balanced"
    observe: Tier = "balanced"
    sum_up: Tier = "balanced"
    compact: Tier = "balanced"

    def of(self, phase: Phase) -> Tier:
        """The tier of one kind."""
        tier: Tier = getattr(self, phase)
        return tier


class Preset(_Table):
    """One preset; presets.toml says what its fields mean."""

    description: str = ""
    tiers: PhaseTiers = PhaseTiers()
    tools: Mapping[str, Tier] = Field(default_factory=dict)
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    reply_tokens: Annotated[int | None, Field(ge=1)] = None
    reasoning_effort: str | None = None
    system_prompt: str = ""
    fallbacks: tuple[str, ...] = ()

    def tier(self, phase: Phase, after: Sequence[str] = ()) -> Tier:
        """The tier of a call that reads the results of the tools `after`."""
        usual = self.tiers.of(phase)
        return max((self.tools.get(tool, usual) for tool in after), key=TIERS.index, default=usual)


def load_presets(home: Path) -> dict[str, Preset]:
    """Our presets and the person's, by name; of two with one name the person's.

    Raises:
        SettingsError: the person's file does not fit; the message names file, preset and field.
    """
    tables = shipped_tables(FILE) | home_tables(home, FILE)
    return {name: _preset(name, table) for name, table in tables.items()}


def _preset(name: str, table: object) -> Preset:
    try:
        return Preset.model_validate(table)
    except ValidationError as error:
        raise misfit(FILE, f"the preset {name!r}", error) from None
