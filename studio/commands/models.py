"""`lockstitch models`: which model each tier means, what it costs, and the presets that choose among them."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import click

from lockstitch.graph.models.catalogue import WINDOW_UNKNOWN, ModelFacts, Rates
from lockstitch.graph.models.choice import Origin, find_model
from lockstitch.graph.models.presets import TIERS, Preset
from lockstitch.graph.models.served import list_served
from lockstitch.graph.models.source import ConfiguredModels
from lockstitch.graph.models.wish import ModelWish, Tier
from lockstitch.state.errors import NoModelError, UsageError
from lockstitch.state.settings import Settings, load_settings
from lockstitch.studio.terminal import write_json
from lockstitch.studio.visible import make_visible, one_line

LINE_CHARS: Final = 80  # also of text that we wrap
NAME_CHARS: Final = 9  # column of tiers and presets; `balanced` has 8
INDENT: Final = " " * (NAME_CHARS + 2)
NOTHING_KNOWN: Final = ModelFacts()
UNNAMED: Final = ModelWish()  # no run of its own: what the settings alone ask for


@dataclass(frozen=True, kw_only=True)
class TierModel:
    """What one tier means; `problem` says what to set where it means nothing."""

    tier: Tier
    model: str | None = None
    origin: Origin | None = None
    facts: ModelFacts = NOTHING_KNOWN
    problem: str | None = None


@click.command(name="models")
@click.option("--remote", is_flag=True, help="Ask the endpoint which models it serves, and list them.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.pass_obj
def command(home: Path | None, /, *, remote: bool, as_json: bool) -> None:
    """Show which models and presets are set, and what they cost.

    Prices are list prices by the name of a model. `models.toml` and `presets.toml` in the home folder add
    to what is known here.
    """
    settings = load_settings(home=home)
    if remote:
        return _print_served(list_served(settings), as_json=as_json)
    models = ConfiguredModels(settings)
    tiers = [_tier_model(tier, models, settings) for tier in TIERS]
    if as_json:
        return write_json(_as_json(tiers, models))
    for line in _describe(tiers, models):
        click.echo(line)
    return None


def _print_served(names: list[str], *, as_json: bool) -> None:
    if as_json:
        return write_json({"served": names})
    for name in names:
        click.echo(make_visible(name))
    if not names:
        click.echo("The endpoint serves no model.")
    return None


def _tier_model(tier: Tier, models: ConfiguredModels, settings: Settings) -> TierModel:
    try:
        choice, origin = find_model(None, settings, tier=tier)
        return TierModel(tier=tier, model=str(choice), origin=origin, facts=models.facts(choice))
    except UsageError as error:
        return TierModel(tier=tier, problem=error.message)


def _fallbacks(models: ConfiguredModels) -> list[str]:
    try:
        return [str(choice) for choice in models.chain(UNNAMED, "balanced")[1:]]
    except NoModelError:
        return []


def _as_json(tiers: list[TierModel], models: ConfiguredModels) -> dict[str, Any]:
    in_force = models.preset_in_force(UNNAMED)
    return {
        "tiers": [asdict(tier) | {"facts": tier.facts.model_dump(mode="json")} for tier in tiers],
        "preset": in_force,
        "presets": {name: preset.model_dump(mode="json") for name, preset in models.presets.items()},
        "fallbacks": _fallbacks(models),
        "notices": models.notices(UNNAMED),
        "prices_as_of": models.catalogue.as_of,
    }


def _describe(tiers: list[TierModel], models: ConfiguredModels) -> Iterator[str]:
    yield "Tiers"
    for tier in tiers:
        if tier.problem is None:
            yield f"  {tier.tier:<{NAME_CHARS}}{_visible(tier.model or '')} ({tier.origin})"
            yield from (INDENT + line for line in _describe_facts(tier.facts))
    for problem in dict.fromkeys(tier.problem for tier in tiers if tier.problem):
        missing = ", ".join(tier.tier for tier in tiers if tier.problem == problem)
        yield _wrapped(f"{missing}: {problem}", indent="  ")
    yield from map(_wrapped, models.notices(UNNAMED))
    yield "\nPresets (* is in force)"
    in_force = models.preset_in_force(UNNAMED)
    for name, preset in models.presets.items():
        yield from _describe_preset(name, preset, mark="*" if name == in_force else " ")
    others = ", ".join(_fallbacks(models)) or "none; LOCKSTITCH_FALLBACK_MODELS, or a preset, names them"
    yield _wrapped(f"\nWhen a model cannot be reached: {others}.")
    yield _wrapped(
        f"Prices are list prices as of {models.catalogue.as_of}. They change, and the provider's bill counts."
    )


def _describe_facts(facts: ModelFacts) -> Iterator[str]:
    window = f"{facts.window:,}" if facts.window else f"unknown, taken as {WINDOW_UNKNOWN:,}"
    price = facts.price
    if price is None:
        yield f"window {window}; price unknown"
    elif not (price.input or price.output):
        yield f"window {window}; free"
    else:
        yield f"window {window}; {_describe_rates(price)} per million"
        if price.long:
            yield f"with more than {price.long.over:,} tokens in {_describe_rates(price.long)}"


def _describe_rates(rates: Rates) -> str:
    cached = f", ${rates.cached:g} cached" if rates.cached is not None else ""
    return f"${rates.input:g} in{cached}, ${rates.output:g} out"


def _describe_preset(name: str, preset: Preset, *, mark: str) -> Iterator[str]:
    yield _wrapped(f"{mark} {name:<{NAME_CHARS}}{preset.description}", indent=INDENT, hanging=True)
    yield INDENT + ", ".join(f"{phase} {tier}" for phase, tier in preset.tiers.model_dump().items())
    for tier, tools in _tools_by_tier(preset.tools).items():
        yield _wrapped(f"{tier} after {', '.join(tools)}", indent=INDENT)
    options = preset.model_dump(include={"temperature", "reply_tokens", "reasoning_effort", "fallbacks"})
    options["fallbacks"] = ", ".join(preset.fallbacks)
    said = [f"{name} {value}" for name, value in options.items() if value not in (None, "")]
    if said:
        yield _wrapped(", ".join(said), indent=INDENT)


def _tools_by_tier(tools: Mapping[str, Tier]) -> dict[Tier, list[str]]:
    by_tier = {tier: sorted(tool for tool in tools if tools[tool] == tier) for tier in TIERS}
    return {tier: names for tier, names in by_tier.items() if names}


def _visible(text: str) -> str:
    return one_line(text, max_chars=LINE_CHARS)


def _wrapped(text: str, *, indent: str = "", hanging: bool = False) -> str:
    return click.wrap_text(
        make_visible(text),
        width=LINE_CHARS,
        initial_indent="" if hanging else indent,
        subsequent_indent=indent,
    )
