"""What a client sends to /api/agent/react_step and gets from it."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lockstitch.studio.http.schemas import (
    PATH_CHARS,
    PROMPT_CHARS,
    Arguments,
    Got,
    Json,
    Name,
    Temperature,
    UserApiKeys,
)

TURNS_MAX: Final = 1000  # of a conversation; the prompt's length ends far earlier
PATHS_MAX: Final = 100
RESULTS_MAX: Final = 50
TOKENS_MAX: Final = 10_000_000  # more than any model reads
ITERATIONS_MAX: Final = 1000
FilePath = Annotated[str, Field(min_length=1, max_length=PATH_CHARS)]


class Loose(BaseModel):
    """Base of what this client sends: it has fields of its own that we do not read."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class ToolCallMade(Loose):
    """The call that an assistant's turn asked for."""

    name: Name
    parameters: Arguments = {}


class ToolResult(Loose):
    """What the client's tool came to."""

    success: bool
    result: Json = None


class HistoryTurn(Loose):
    """One turn of the conversation."""

    role: Literal["user", "assistant", "tool_observation"]
    content: Annotated[str, Field(max_length=PROMPT_CHARS)] | None = None
    tool_call: ToolCallMade | None = Field(default=None, alias="toolCall")
    tool_result: ToolResult | None = Field(default=None, alias="toolResult")
    timestamp: str | int | float | None = None

    @model_validator(mode="after")
    def _holds_something(self) -> Self:
        if self.role == "tool_observation" and self.tool_result is None:
            raise ValueError("a tool_observation needs its toolResult")
        if self.role == "user" and not (self.content or "").strip():
            raise ValueError("a user's turn needs its content")
        return self


class ImplicitContext(Loose):
    """What the client's editor shows."""

    last_focused_file_path: FilePath | None = None


class SearchResult(Loose):
    """A piece of a file that the client found."""

    path: FilePath
    content: Annotated[str, Field(max_length=PROMPT_CHARS)]
    score: Annotated[float, Field(ge=0, le=1)] | None = None
    start_line: Annotated[int, Field(ge=1, le=TOKENS_MAX)] | None = None


class LlmConfig(Loose):
    """Which model, and how long prompt and reply may be."""

    model_name: Name | None = Field(default=None, alias="modelName")
    token_limit: Annotated[int, Field(ge=1, le=TOKENS_MAX)] | None = Field(default=None, alias="tokenLimit")
    reserved_output_tokens: Annotated[int, Field(ge=1, le=TOKENS_MAX)] | None = Field(
        default=None, alias="reservedOutputTokens"
    )
    temperature: Temperature | None = None


class ReactStepRequest(Loose):
    """A conversation that the client keeps, and what it knows beside."""

    project_id: str = Field(default="", max_length=PATH_CHARS, description="a folder below an allowed root")
    session_id: str = Field(default="", max_length=PATH_CHARS, description="the client's; sent back as it is")
    user_query: str = Field(
        default="", max_length=PROMPT_CHARS, description="may be empty after a tool_observation"
    )
    conversation_history: Annotated[list[HistoryTurn], Field(max_length=TURNS_MAX)] = []
    explicit_context_paths: Annotated[list[FilePath], Field(max_length=PATHS_MAX)] = []
    pinned_item_ids_to_include: Annotated[list[str], Field(max_length=PATHS_MAX)] = []
    implicit_context: ImplicitContext | None = None
    vector_search_results_to_include: Annotated[list[SearchResult], Field(max_length=RESULTS_MAX)] = []
    available_tools_prompt_segment: str = Field(default="", max_length=PROMPT_CHARS)
    llm_config: LlmConfig = LlmConfig()
    user_api_keys: UserApiKeys | None = None
    max_iterations_left: int = Field(ge=1, le=ITERATIONS_MAX, description="counting this one")


class ActionDetails(Got):
    """The call that the client is to make."""

    tool_name: str
    tool_args: dict[str, Any]
    raw_action_string: str = Field(description="the model's own text for it")


class ReactStepReply(Got):
    """What the step came to: an action, an answer, or an error."""

    session_id: str
    thought: str
    action_details: ActionDetails | None
    direct_response: str | None
    updated_conversation_history: list[dict[str, Any]] = Field(
        description="send it back with the next request, with a tool_observation at its end after an action"
    )
    iterations_remaining: int
    status: Literal["action_proposed", "direct_response_provided", "error"]
    error: str | None = Field(default=None, description="what went wrong, when status is error")
    notices: list[str] = Field(
        default=[], description="what the model was told beside, and what was left out"
    )
