"""What is known of models by name: window, longest reply, price; and what a reply cost by that."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from langchain_core.messages.ai import UsageMetadata
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lockstitch.graph.models.table_file import home_tables, misfit, shipped_tables
from lockstitch.graph.models.wish import Tier
from lockstitch.state.errors import SettingsError

FILE: Final = "models.toml"
PER: Final = 1_000_000  # tokens that a price is for
WINDOW_UNKNOWN: Final = 128_000  # tokens; what nearly every model that can call tools reads today
_DATE: Final = re.compile(r"[-@](?:\d{4}-\d\d-\d\d|\d{6,8}|latest)$")  # how makers date a name

Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Tokens = Annotated[int, Field(ge=1)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rates(_Table):
    """USD per million tokens. Without a price of its own cached input costs what other input does."""

    input: Usd
    output: Usd
    cached: Usd | None = None
    cache_write: Usd | None = None


class LongRates(Rates):
    """What a whole request costs whose input has more than `over` tokens."""

    over: Tokens


class Price(Rates):
    """A model's list price."""

    long: LongRates | None = None

    def rates(self, input_tokens: int) -> Rates:
        """The rates of a request with so much input."""
        return self.long if self.long and input_tokens > self.long.over else self


class ModelFacts(_Table):
    """What is known of a model; None is unknown.

    Attributes:
        window: tokens that a request may hold.
        reply: tokens of its longest reply.
        efforts: the levels of reasoning effort it takes beside tools.
    """

    window: Tokens | None = None
    reply: Tokens | None = None
    price: Price | None = None
    efforts: tuple[str, ...] = ()


FREE: Final = ModelFacts(price=Price(input=0, output=0))


@dataclass(frozen=True)
class Catalogue:
    """The models that are known, by the name they are asked for; `as_of` says of when our prices are."""

    models: Mapping[str, ModelFacts]
    as_of: str

    def facts(self, name: str) -> ModelFacts:
        """What is known of `name`, which may end in a date; scripted models cost nothing."""
        if name.startswith("scripted:"):
            return FREE
        return self.models.get(name) or self.models.get(_DATE.sub("", name)) or ModelFacts()


def load_catalogue(home: Path) -> Catalogue:
    """Our models, with the person's own file over them, field by field.

    Raises:
        SettingsError: the person's file does not fit.
    """
    shipped, own = shipped_tables(FILE), home_tables(home, FILE)
    if unknown := sorted(own.keys() - {"models", "as_of"}):
        raise SettingsError(
            f"{FILE} in the home folder: there is no such field as {unknown[0]!r}; a model is a table "
            '[models."NAME"].'
        )
    tables = dict(shipped["models"])
    for name, table in _named(own).items():
        tables[name] = {**tables.get(name, {}), **table}
    models = {name: _facts(name, table) for name, table in tables.items()}
    return Catalogue(models, str(own.get("as_of") or shipped["as_of"]))


def default_model(tier: Tier) -> str:
    """OpenAI's model for a tier, where nothing but its key is set."""
    return str(shipped_tables(FILE)["defaults"][tier])


def cost_usd(usage: UsageMetadata | None, facts: ModelFacts) -> float | None:
    """What a reply cost; None where its tokens or the price are unknown. Reasoning counts as output."""
    if usage is None or facts.price is None:
        return None
    rates = facts.price.rates(usage["input_tokens"])
    details = usage.get("input_token_details", {})
    read, written = details.get("cache_read", 0), details.get("cache_creation", 0)
    fresh = max(0, usage["input_tokens"] - read - written)
    cost = fresh * rates.input + usage["output_tokens"] * rates.output
    cost += read * (rates.input if rates.cached is None else rates.cached)
    cost += written * (rates.input if rates.cache_write is None else rates.cache_write)
    return cost / PER


def _named(own: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    named = own.get("models", {})
    if not isinstance(named, dict) or not all(isinstance(table, dict) for table in named.values()):
        raise SettingsError(f'{FILE} in the home folder: write each model as a table [models."NAME"].')
    return named


def _facts(name: str, table: Mapping[str, Any]) -> ModelFacts:
    try:
        return ModelFacts.model_validate(table)
    except ValidationError as error:
        raise misfit(FILE, f"the model {name!r}", error) from None
