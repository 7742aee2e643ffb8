"""The slash commands that choose: model, preset, strategy, mode and steps of the runs to come.

A value that does not fit is told at once, and changes nothing.
"""

from typing import get_args

from lockstitch.graph.models.presets import load_presets
from lockstitch.graph.strategies.registry import STRATEGIES
from lockstitch.state.errors import SettingsError
from lockstitch.state.settings import STEPS_MAX, STEPS_MIN, Mode
from lockstitch.studio.chat.talk import Talk


async def choose_model_name(talk: Talk, name: str) -> None:
    """Show the model, or take another."""
    if name:
        talk.session.choose(model=name)
        talk.refit()
    talk.say(f"model {name or talk.gauge.model}{talk.from_when if name else ''}")


async def choose_preset(talk: Talk, name: str) -> None:
    """List the presets, or take one."""
    presets = load_presets(talk.session.service.parts.home.path)
    if name and name not in presets:
        raise SettingsError(f"there is no preset {name!r}. Choose one of: {', '.join(presets)}.")
    if name:
        talk.session.choose(preset=name)
        talk.refit()
        talk.say(f"preset {name}{talk.from_when}: {presets[name].description}")
        return
    talk.say(*(f"{one}: {preset.description}" for one, preset in presets.items()))


async def choose_strategy_name(talk: Talk, name: str) -> None:
    """Show the strategy, or take another."""
    if name:
        talk.session.choose(strategy=name)
        talk.refit()
    when = talk.from_when if name else ""
    talk.say(f"strategy {name or talk.gauge.strategy}{when}; there are {', '.join(STRATEGIES)}")


async def choose_mode(talk: Talk, name: str) -> None:
    """Show the mode, or take another."""
    modes = get_args(Mode)
    if name and name not in modes:
        raise SettingsError(f"there is no mode {name!r}. Choose one of: {', '.join(modes)}.")
    if name:
        talk.session.choose(mode=name)
        talk.refit()
    when = talk.from_when if name else ""
    talk.say(f"mode {name or talk.gauge.mode}{when}; there are {', '.join(modes)}")


async def choose_steps(talk: Talk, number: str) -> None:
    """Set how many steps a run may take."""
    if not (number.isascii() and number.isdecimal() and STEPS_MIN <= int(number) <= STEPS_MAX):
        raise SettingsError(f"/steps takes a number from {STEPS_MIN} to {STEPS_MAX}.")
    talk.session.choose(max_steps=int(number))
    talk.say(f"at most {int(number)} steps a run{talk.from_when}")
