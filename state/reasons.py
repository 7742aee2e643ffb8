"""Why a run ended, the words a person is told, and the command line's exit codes. One table for all doors."""

from typing import Final, Literal, NamedTuple

TerminationReason = Literal[
    "answered",
    "todos_completed",
    "finished",
    "step_limit",
    "cost_limit",
    "time_limit",
    "stuck",
    "cancelled",
    "waiting",
    "security_violation",
    "model_error",
    "system_error",
]


class Ending(NamedTuple):
    """What one termination reason means for a person and for a script."""

    exit_code: int
    meaning: str


ENDINGS: Final[dict[TerminationReason, Ending]] = {
    "answered": Ending(0, "the model gave its answer"),
    "todos_completed": Ending(0, "every task of the TODO list is completed and the model confirmed it"),
    "finished": Ending(0, "the strategy finished explicitly"),
    "step_limit": Ending(3, "the run used up its steps; the last message sums up what is left"),
    "cost_limit": Ending(4, "the run reached its cost limit"),
    "time_limit": Ending(5, "the run reached its time limit"),
    "stuck": Ending(6, "the run repeated itself without progress"),
    "waiting": Ending(7, "a person must approve or answer something first"),
    "security_violation": Ending(8, "policy was broken, for example three paths out of the workspace"),
    "model_error": Ending(9, "the model could not be reached or refused the request"),
    "system_error": Ending(1, "this program or the machine failed"),
    "cancelled": Ending(130, "the run was stopped"),
}

# Exit codes that belong to no reason, because no run began or a signal ended it.
EXIT_USAGE: Final = 2  # the convention of click and most Unix programs
EXIT_THREAD_BUSY: Final = 10
EXIT_TERMINATED: Final = 143  # 128 + SIGTERM, as shells report it


def exit_code_of(reason: TerminationReason) -> int:
    """The command line's exit code for a run that ended with `reason`."""
    return ENDINGS[reason].exit_code
