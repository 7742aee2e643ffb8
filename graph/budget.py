"""Whether a cost limit can hold at all."""

from lockstitch.graph.models.port import ModelPort
from lockstitch.state.errors import SettingsError


def check_price(model: ModelPort) -> None:
    """Refuse a model under a cost limit whose price nobody knows, or that of one which stands in for it.

    Raises:
        SettingsError: the price is unknown.
    """
    if not model.priced:
        raise SettingsError(
            f"the price of {model.name}, or of a model that stands in for it, is unknown, so a cost limit "
            "cannot hold. Add the price to models.toml in the home folder, or set a token limit."
        )
