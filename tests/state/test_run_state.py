"""The reducers of the delta channels: the same however the writes are batched, and without side effects."""

from copy import deepcopy
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, message_to_dict
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import REMOVE_ALL, RunInput, RunState, append_records, merge_messages

IDS = st.sampled_from(["a", "b", "c", "d"])
HUMAN = st.builds(lambda text, id_: HumanMessage(text, id=id_), st.text(max_size=3), IDS)
AI = st.builds(lambda text, id_: AIMessage(text, id=id_), st.text(max_size=3), IDS)
REMOVAL = (IDS | st.just(REMOVE_ALL)).map(lambda id_: RemoveMessage(id=id_))
MESSAGE = HUMAN | AI | REMOVAL
WRITES = st.lists(MESSAGE | st.lists(MESSAGE, max_size=4), max_size=5)
STATE = st.lists(HUMAN | AI, max_size=4, unique_by=lambda message: message.id)


def plain(messages: list[AnyMessage]) -> list[dict[str, Any]]:
    return [message_to_dict(message) for message in messages]


def one_by_one(messages: list[AnyMessage], writes: list[Any]) -> list[AnyMessage]:
    """The reducer as it is meant, written the slow and obvious way."""
    for write in writes:
        for message in write if isinstance(write, list) else [write]:
            messages = after(messages, message)
    return messages


def after(messages: list[AnyMessage], message: Any) -> list[AnyMessage]:
    if isinstance(message, RemoveMessage):
        return [] if message.id == REMOVE_ALL else [m for m in messages if m.id != message.id]
    if any(m.id == message.id for m in messages):
        return [message if m.id == message.id else m for m in messages]
    return [*messages, message]


@given(STATE, WRITES)
def test_messages_are_appended_replaced_and_removed_by_id(state: list[AnyMessage], writes: list[Any]) -> None:
    assert plain(merge_messages(state, writes)) == plain(one_by_one(state, writes))


@given(STATE, WRITES, WRITES)
def test_merge_is_the_same_however_the_writes_are_batched(
    state: list[AnyMessage], xs: list[Any], ys: list[Any]
) -> None:
    assert plain(merge_messages(merge_messages(state, xs), ys)) == plain(merge_messages(state, xs + ys))


@given(STATE, WRITES, st.lists(WRITES, max_size=3))
def test_any_list_can_be_gone_on_from_again(
    state: list[AnyMessage], xs: list[Any], forks: list[list[Any]]
) -> None:
    base = merge_messages(state, xs)
    for writes in forks:
        assert plain(merge_messages(base, writes)) == plain(one_by_one(base, writes))


def test_what_somebody_put_into_a_list_is_seen() -> None:
    base = merge_messages([], [HumanMessage("1", id="a")])
    base.append(HumanMessage("2", id="b"))
    merged = merge_messages(base, [HumanMessage("3", id="b")])
    assert [(m.id, m.content) for m in merged] == [("a", "1"), ("b", "3")]


@given(STATE, WRITES)
def test_merge_leaves_its_arguments_as_they_were(state: list[AnyMessage], writes: list[Any]) -> None:
    state_before, writes_before = deepcopy(state), deepcopy(writes)
    merge_messages(state, writes)
    assert (state, writes) == (state_before, writes_before)


def test_two_thousand_messages_keep_their_order() -> None:
    messages = [HumanMessage(str(n), id=str(n)) for n in range(2000)]
    assert merge_messages([], [[m] for m in messages]) == messages
    assert merge_messages(list(messages[:1000]), [list(messages[1000:])]) == messages


def test_removed_message_that_is_written_again_stands_at_the_end() -> None:
    state: list[AnyMessage] = [HumanMessage("1", id="a"), HumanMessage("2", id="b")]
    merged = merge_messages(state, [[RemoveMessage(id="a"), HumanMessage("3", id="a")]])
    assert [(m.id, m.content) for m in merged] == [("b", "2"), ("a", "3")]


def test_message_without_an_id_gets_one_and_the_written_object_none() -> None:
    written = HumanMessage("hello")
    merged = merge_messages([], [written, HumanMessage("hello", id="")])
    assert written.id is None
    assert all(message.id for message in merged)
    assert len({message.id for message in merged}) == 2


@pytest.mark.parametrize(
    "write",
    [
        {"role": "user", "content": "hello"},
        ("user", "hello"),
        "hello",
        [{"role": "user", "content": "hello"}],
    ],
    ids=["object", "pair", "text", "list"],
)
def test_what_a_client_sends_becomes_a_message(write: object) -> None:
    (message,) = merge_messages([], [write])
    assert (message.type, message.content) == ("human", "hello")


def test_remove_all_is_spelt_as_langgraph_spells_it() -> None:
    assert REMOVE_ALL == REMOVE_ALL_MESSAGES


RECORD_WRITES = st.lists(st.lists(st.integers(), max_size=3), max_size=4)


@given(st.lists(st.integers()), RECORD_WRITES, RECORD_WRITES)
def test_records_are_appended_the_same_however_batched(
    state: list[int], xs: list[list[int]], ys: list[list[int]]
) -> None:
    before = list(state)
    together = append_records(state, xs + ys)
    assert append_records(append_records(state, xs), ys) == together
    assert together == [*before, *(n for write in xs + ys for n in write)]
    assert state == before


def test_two_thousand_records_keep_their_order() -> None:
    assert append_records([], [[n] for n in range(2000)]) == list(range(2000))


@pytest.mark.parametrize("channel", ["messages", "steps"])
def test_what_grows_with_the_thread_lives_in_a_delta_channel(channel: str) -> None:
    hint = get_type_hints(RunState, include_extras=True)[channel]
    assert isinstance(hint.__metadata__[0], DeltaChannel)


async def test_client_gets_schemas_of_input_state_and_context() -> None:
    """LangGraph builds them with pydantic, which refuses `typing.TypedDict` before Python 3.12."""
    graph = StateGraph(RunState, context_schema=RunContext, input_schema=RunInput)
    graph.add_node("begin", lambda _: {})
    graph.add_edge(START, "begin")
    compiled = graph.compile()
    assert list(compiled.get_input_jsonschema()["properties"]) == ["messages"]
    assert set(compiled.get_output_jsonschema()["properties"]) == set(RunState.__annotations__)
    context = compiled.get_context_jsonschema()
    assert context is not None
    assert context["properties"]["max_steps"]["langgraph_nodes"] == ["begin"]
