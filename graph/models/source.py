"""Which model a run gets for each of its calls: preset, tier, name and options come together here."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from lockstitch.graph.models.breaker import Breaker
from lockstitch.graph.models.build import ModelOptions, build_chat_model
from lockstitch.graph.models.catalogue import ModelFacts, load_catalogue
from lockstitch.graph.models.choice import ModelChoice, choose_model, parse_model
from lockstitch.graph.models.port import ChatModelPort, ModelPort
from lockstitch.graph.models.presets import DEFAULT, Preset, load_presets
from lockstitch.graph.models.router import Link, ModelRouter
from lockstitch.graph.models.wish import ModelWish, Phase, Tier
from lockstitch.state.errors import NoModelError
from lockstitch.state.events import Event
from lockstitch.state.settings import Settings

_AT_ADDRESS: Final = (
    "openai",
    "scripted",
)  # providers for which an address of a run's own can mean something


class ModelSource(Protocol):
    """Where a run gets its models."""

    def open(
        self,
        wish: ModelWish,
        *,
        phase: Phase = "plan",
        after: Sequence[str] = (),
        emit: Callable[[Event], None] | None = None,
    ) -> ModelPort:
        """The model for one kind of call.

        Args:
            wish: the run's choices.
            phase: what the call is for.
            after: names of the tools whose results the call will read.
            emit: hears of pieces of a streamed reply, of retries and of other models tried.

        Raises:
            NoModelError: none is configured, or its package is missing.
        """

    def notices(self, wish: ModelWish) -> list[str]:
        """What a person is told at the beginning of a run about its models."""

    def system_prompt(self, wish: ModelWish) -> str:
        """What the run's preset adds to the end of our system prompt; often nothing."""


class ConfiguredModels:
    """Models as settings and presets say; each is built once for each set of options.

    With a key or an address of one run's own it lives as long as that run: nothing of it is kept elsewhere.
    Built in a thread where an event loop runs, for it reads the person's files.

    Raises:
        SettingsError: a file of presets or models in the home folder does not fit.
    """

    def __init__(
        self, settings: Settings, api_key: SecretStr | None = None, base_url: str | None = None
    ) -> None:
        own = {"openai_base_url": base_url, "openai_api_key": api_key}
        # an address of one's own never gets the operator's key
        replaced = own if base_url else {name: value for name, value in own.items() if value}
        self._settings = settings.model_copy(update=replaced)
        self._own_key, self._own_address = api_key, base_url
        self.presets = load_presets(settings.home)
        self.catalogue = load_catalogue(settings.home)
        self._breaker = Breaker()
        self._links: dict[tuple[ModelChoice, ModelOptions], Link] = {}
        self._facts: dict[ModelChoice, ModelFacts] = {}

    def open(
        self,
        wish: ModelWish,
        *,
        phase: Phase = "plan",
        after: Sequence[str] = (),
        emit: Callable[[Event], None] | None = None,
    ) -> ModelPort:
        """See ModelSource."""
        preset = self.presets[self.preset_in_force(wish)]
        tier = preset.tier(phase, after)
        links = [self._link(choice, self._options(choice, wish, preset)) for choice in self.chain(wish, tier)]
        return ModelRouter(
            links,
            tier=tier,
            retries=self._settings.model_retries,
            breaker=self._breaker,
            emit=emit,
            stream=wish.stream,
        )

    def notices(self, wish: ModelWish) -> list[str]:
        """See ModelSource."""
        asked, used = self._preset_asked(wish), self.preset_in_force(wish)
        if asked == used:
            return []
        known = ", ".join(sorted(self.presets))
        return [f"There is no preset {asked!r}, so this run uses {used!r}. There are: {known}."]

    def system_prompt(self, wish: ModelWish) -> str:
        """See ModelSource."""
        return self.presets[self.preset_in_force(wish)].system_prompt

    def preset_in_force(self, wish: ModelWish) -> str:
        """The name of the preset a run uses: an unknown one is the default."""
        asked = self._preset_asked(wish)
        return asked if asked in self.presets else DEFAULT

    def chain(self, wish: ModelWish, tier: Tier) -> list[ModelChoice]:
        """The model of a tier, then those that are tried when it cannot be reached.

        Raises:
            NoModelError: none is configured.
        """
        names = self.presets[self.preset_in_force(wish)].fallbacks or self._settings.fallback_models
        chain = [choose_model(wish.model, self._settings, tier=tier), *map(parse_model, names)]
        if self._own_key or self._own_address:  # of one provider: no other is shown the key, or asked there
            main = choose_model(wish.model, self._settings)
            first = chain[0] if chain[0].provider == main.provider else main
            chain = [first, *(other for other in chain[1:] if other.provider == main.provider)]
        return list(dict.fromkeys(chain))

    def facts(self, choice: ModelChoice) -> ModelFacts:
        """What is known of a model, from our table, the person's, or LangChain's own.

        Raises:
            NoModelError: the provider's package is missing.
        """
        facts = self._told(choice)
        return facts if facts.window else self._link(choice, ModelOptions()).facts

    def _preset_asked(self, wish: ModelWish) -> str:
        return wish.preset or self._settings.preset or DEFAULT

    def _options(self, choice: ModelChoice, wish: ModelWish, preset: Preset) -> ModelOptions:
        facts, settings = self._told(choice), self._settings
        temperatures = (wish.temperature, settings.temperature, preset.temperature)
        reply = settings.reply_tokens or preset.reply_tokens
        effort = preset.reasoning_effort if preset.reasoning_effort in facts.efforts else None
        return ModelOptions(
            temperature=next((one for one in temperatures if one is not None), None),
            reply_tokens=min(reply, facts.reply or reply) if reply else None,
            reasoning_effort=settings.reasoning_effort or effort,
        )

    def _told(self, choice: ModelChoice) -> ModelFacts:
        """What the tables and the settings say, without building the model."""
        if choice not in self._facts:
            facts, window = self.catalogue.facts(str(choice)), self._settings.context_window
            self._facts[choice] = facts.model_copy(update={"window": window}) if window else facts
        return self._facts[choice]

    def _link(self, choice: ModelChoice, options: ModelOptions) -> Link:
        key = (choice, options)
        if key not in self._links:
            if self._own_address and choice.provider not in _AT_ADDRESS:
                raise NoModelError(
                    f"{choice} cannot be asked at an address of your own: leave out the address or the model."
                )
            model = build_chat_model(choice, options, self._settings, api_key=self._own_key)
            self._links[key] = Link(ChatModelPort(model, choice), _completed(self._told(choice), model))
        return self._links[key]


def _completed(facts: ModelFacts, model: BaseChatModel) -> ModelFacts:
    """The facts, with window and reply as LangChain knows them where we do not."""
    profile = model.profile or {}
    window, reply = profile.get("max_input_tokens"), profile.get("max_output_tokens")
    found = {"window": facts.window or window or None, "reply": facts.reply or reply or None}
    return facts.model_copy(update=found)
