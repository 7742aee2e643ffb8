"""What the options of `run` and `chat` mean for a run, and how they are written again."""

import pytest
from click.testing import CliRunner

from lockstitch.state.settings import CommandNetwork
from lockstitch.studio.commands.run import command
from lockstitch.studio.run_options import RunOptions


@pytest.mark.parametrize("network", ["on", "off", ("pypi.org", "*.npmjs.org")])
def test_network_is_the_runs_and_is_kept_in_the_command_that_goes_on(network: CommandNetwork) -> None:
    options = RunOptions(network=network)
    assert options.context().network == network
    written = network if isinstance(network, str) else "'pypi.org,*.npmjs.org'"
    assert options.command_for("t") == f"lockstitch run --thread t --network {written}"


def test_network_that_is_none_is_refused_with_what_to_write() -> None:
    done = CliRunner().invoke(command, ["--network", "everything", "go"])
    assert done.exit_code == 2
    assert "write off, on, or domains such as" in done.output


def test_indexes_are_the_runs_and_are_kept_in_the_command_that_goes_on() -> None:
    options = RunOptions(use_cgrag=True, indexes=("docs", "api"))
    assert (options.context().use_cgrag, options.context().indexes) == (True, ["docs", "api"])
    assert options.command_for("t") == "lockstitch run --thread t --index docs --index api"
    assert (RunOptions().context().use_cgrag, RunOptions().context().indexes) == (None, None)
