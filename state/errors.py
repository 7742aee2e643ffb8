"""The error tree of the agent: what is wrong, and who must react.

    AgentError
    ├── RecoverableError        the model: the message becomes the observation, the loop goes on
    │   ├── ToolExecutionError      the tool ran and failed
    │   ├── ToolValidationError     the call's name or arguments do not fit
    │   ├── ResourceLimitError      a size, count, rate or time limit was met
    │   │   └── RateLimitError          the thread's minute is used up; nothing was run
    │   └── PathEscapeError         a path leads out of the workspace (the third one ends the run)
    └── TerminalError           the run ends with `reason`
        ├── SecurityViolationError  the operator's policy was broken
        ├── StepLimitReachedError   the run used up its steps
        ├── ModelError              the operator: the endpoint, the key or the model name
        │   └── ContextOverflowError    the graph: a summary of older turns may help
        ├── SystemFaultError        the operator: disk, database, process
        └── UsageError              the user: a call this program cannot follow
            ├── SettingsError           a setting has a wrong value
            ├── HomeUnusableError       the home folder cannot be read or written
            ├── WorkspaceError          the workspace is missing, or is no folder
            ├── NoModelError            no model is configured
            ├── ThreadUnknownError      no such thread, or the id is none
            └── ThreadBusyError         another process writes this thread

A message says in one or two lines what happened and what to try next. It holds no secret, no file
content, no stack trace, and no absolute path outside the workspace that the user did not name.
"""

from typing import ClassVar

from lockstitch.state.reasons import EXIT_THREAD_BUSY, EXIT_USAGE, TerminationReason, exit_code_of


class AgentError(Exception):
    """Anything this program raises on purpose."""

    @property
    def message(self) -> str:
        """The text a person or the model is shown."""
        return str(self)


class RecoverableError(AgentError):
    """The model can repair it: the message becomes the tool's result."""


class ToolExecutionError(RecoverableError):
    """The tool ran and could not do its work."""


class ToolValidationError(RecoverableError):
    """No such tool, or its arguments do not fit."""


class ResourceLimitError(RecoverableError):
    """A size, count, rate or time limit was met."""


class RateLimitError(ResourceLimitError):
    """The thread has made as many file operations as it may in a minute."""


class PathEscapeError(RecoverableError):
    """A path leads out of the workspace; refused and counted."""


class TerminalError(AgentError):
    """Ends the run with `reason`; the thread stays resumable."""

    reason: ClassVar[TerminationReason] = "system_error"

    @property
    def exit_code(self) -> int:
        """The exit code of the command line for this error."""
        return exit_code_of(self.reason)


class SecurityViolationError(TerminalError):
    """Policy was broken and the run must not go on."""

    reason = "security_violation"


class StepLimitReachedError(TerminalError):
    """The run has used up its steps."""

    reason = "step_limit"


class ModelError(TerminalError):
    """The model could not be reached, refused the request, or answered nothing usable."""

    reason = "model_error"


class ContextOverflowError(ModelError):
    """The conversation is longer than the model can read."""


class SystemFaultError(TerminalError):
    """Disk, database or operating system failed under us."""

    reason = "system_error"


class UsageError(TerminalError):
    """The call cannot be followed as it stands; nothing was changed."""

    @property
    def exit_code(self) -> int:
        """Wrong usage has one exit code, whatever the mistake."""
        return EXIT_USAGE


class SettingsError(UsageError):
    """A setting has a value it cannot have."""


class HomeUnusableError(UsageError):
    """The home folder cannot be created, read or written."""


class WorkspaceError(UsageError):
    """The workspace is missing, is no folder, or may not be one."""


class NoModelError(UsageError):
    """Neither a model nor an endpoint is configured."""


class ThreadUnknownError(UsageError):
    """There is no thread of that id, or the id is no UUID."""


class ThreadBusyError(UsageError):
    """Another process is writing this thread; the message says which."""

    @property
    def exit_code(self) -> int:
        """Its own code, so that a script can wait and try again."""
        return EXIT_THREAD_BUSY
