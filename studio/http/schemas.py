"""What clients send and get at more than one route: bodies and their parts."""

import math
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from lockstitch.graph.models.clean import is_plain
from lockstitch.state.errors import ThreadUnknownError
from lockstitch.state.reasons import TerminationReason
from lockstitch.state.settings import STEPS_MAX, STEPS_MIN, Mode
from lockstitch.state.threads import check_thread_id
from lockstitch.state.todos import Todo

PROMPT_CHARS: Final = 500_000  # half of what a body may hold; the model's window ends far earlier
NAME_CHARS: Final = 200  # of a model, a strategy, a tool
PATH_CHARS: Final = 4096  # Linux' own limit
SEQ_MAX: Final = 2**53 - 1  # what JSON holds exactly everywhere


class Sent(BaseModel):
    """Base of what a client sends: a field that we do not know is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Got(BaseModel):
    """Base of what a client gets."""

    model_config = ConfigDict(frozen=True)


def _thread_id(text: str) -> str:
    try:
        return check_thread_id(text)
    except ThreadUnknownError:
        raise ValueError("it is no thread id: one looks like 3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7a") from None


def plain(value: Any) -> Any:
    """The value, which can be stored and sent; ValueError where it cannot."""
    if not is_plain(value):
        raise ValueError("it holds a number that is too large or none, or is nested too deep")
    return value


def said(text: str) -> str:
    """The text, which holds more than blanks; ValueError where it does not."""
    if not text.strip():
        raise ValueError("it is empty")
    return text


def finite(number: float) -> float:
    """The number, which is one; ValueError for infinity and the like."""
    if not math.isfinite(number):
        raise ValueError("it is no number")
    return number


ThreadId: TypeAlias = Annotated[
    str, AfterValidator(_thread_id), Field(examples=["3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7a"])
]
Prompt: TypeAlias = Annotated[str, Field(min_length=1, max_length=PROMPT_CHARS), AfterValidator(said)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=NAME_CHARS)]
FolderPath: TypeAlias = Annotated[str, Field(min_length=1, max_length=PATH_CHARS)]
Json: TypeAlias = Annotated[Any, AfterValidator(plain)]
Arguments: TypeAlias = Annotated[dict[str, Any], AfterValidator(plain)]
Steps: TypeAlias = Annotated[int, Field(ge=STEPS_MIN, le=STEPS_MAX)]
Temperature: TypeAlias = Annotated[float, Field(ge=0, le=2), AfterValidator(finite)]
Seq: TypeAlias = Annotated[int, Field(ge=0, le=SEQ_MAX)]


class UserApiKeys(Sent):
    """Keys of the client's own, used for this run alone: never stored, logged or sent back."""

    llm_key: SecretStr | None = Field(default=None, alias="llmKey", description="for the model's endpoint")


class RunChoices(Sent):
    """What a client may choose for one run; what is left out is the server's setting."""

    strategy: Name | None = Field(default=None, description="how the agent thinks", examples=["react"])
    mode: Mode | None = Field(default=None, description="plan changes nothing, ask asks first, auto least")
    workspace: FolderPath | None = Field(default=None, description="folder to work in, below an allowed root")
    model: Name | None = Field(default=None, description="`name` or `provider:name`")
    preset: Name | None = Field(default=None, description="a named set of models", examples=["balanced"])
    temperature: Temperature | None = Field(default=None, description="of the model")
    tools: list[Name] | None = Field(default=None, description="the tools it may call; all when left out")
    use_cgrag: bool | None = Field(default=None, description="begin with what the index finds")
    user_api_keys: UserApiKeys | None = None


class Answer(Sent):
    """A person's word on what a thread waits for."""

    decision: Literal["approve", "edit", "reject", "respond"] = Field(
        description="approve: do it. edit: do it with `args`. reject: do not, for the reason in `message`. "
        "respond: `message` is the result, or the answer to a question"
    )
    args: Arguments | None = Field(default=None, description="of edit: the arguments to use instead")
    message: str = Field(default="", max_length=PROMPT_CHARS, description="of reject and respond")
    always: bool = Field(
        default=False, description="of approve: write down the offered `rule`, so that it is not asked again"
    )
    digest: str = Field(
        default="", max_length=NAME_CHARS, description="of what was shown; where it differs it counts as no"
    )
    user_api_keys: UserApiKeys | None = Field(default=None, description="as the run began with, if it did")


class RunData(Got):
    """What a run came to."""

    thread_id: str
    answer: str = Field(description="the final words; empty while the thread waits")
    steps: int = Field(description="steps of this run")
    tasks: list[Todo] = Field(description="the TODO list as it stands")
    reason: TerminationReason | None = Field(description="why the run ended", examples=["answered"])
    waiting_for: dict[str, Any] | None = Field(
        default=None, description="while reason is `waiting`: the question, with its action_id"
    )


class RunReply(Got):
    """A run that has ended, or waits for a person."""

    success: bool = Field(description="whether the task was done")
    message: str = Field(description="how the run ended, for a person")
    data: RunData
    error: str | None = Field(default=None, description="the reason, when success is false")


class Done(Got):
    """What needed no more words."""

    success: Literal[True] = True
    message: str
