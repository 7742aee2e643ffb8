"""What a tool call comes to: one shape for every tool, at every door."""

from dataclasses import dataclass, field
from typing import Any

from lockstitch.state.run_state import Pending, Shown


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """The outcome of one call. `output` is text for the model, `data` the same facts for programs.

    Attributes:
        success: False only when the tool could not do its work; a command's non-zero exit is a success.
        error: begins with `Error:` exactly when `success` is False.
        metadata: `time_ms` and the like; never file contents.
        requires_confirmation: the call was not made, a person must say yes first.
        pending: where its changes are held that a person must say yes to, with what they are shown.
    """

    success: bool = True
    output: str = ""
    error: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    requires_confirmation: bool = False
    pending: tuple[Pending, Shown] | None = None

    @property
    def text(self) -> str:
        """What the model reads: the output, or the error."""
        return self.output if self.error is None else self.error

    @classmethod
    def failure(cls, message: str, **metadata: Any) -> "ToolResult":
        """A failed call; `message` says what happened and what to try next."""
        return cls(success=False, error=f"Error: {message}", metadata=metadata)
