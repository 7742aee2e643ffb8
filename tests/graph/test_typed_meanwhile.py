"""What a person types while a run goes on is handed to its next plan, and is never lost."""

from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.client import Inbox
from lockstitch.state.errors import ModelError


class TypedAt(FakeModel):
    """Somebody types while the model thinks about its nth reply."""

    def __init__(self, *replies: Any, at: int, text: str) -> None:
        super().__init__(*replies)
        self.inbox = Inbox()
        self._at, self._text = at, text

    async def ask(self, *args: Any, **kwargs: Any) -> AIMessage:
        if len(self.prompts) == self._at:
            self.inbox.put(self._text)
        return await super().ask(*args, **kwargs)


def human(state: dict[str, Any]) -> list[str]:
    return [m.text for m in state["messages"] if m.type == "human"]


async def test_a_message_typed_during_a_step_is_handed_to_the_next_plan(tmp_path: Path) -> None:
    model = TypedAt(says("", call("list_directory")), says("Done."), at=0, text="only b.py")
    bench = Bench(tmp_path, model)
    bench.attach(inbox=model.inbox)
    state = await bench.run("go")
    assert [m.type for m in model.prompts[1][-2:]] == ["tool", "human"]
    assert model.prompts[1][-1].text == "only b.py"
    assert human(state) == ["go", "only b.py"]
    assert state["final_answer"] == "Done."


async def test_a_message_typed_during_the_answer_keeps_the_run_going(tmp_path: Path) -> None:
    model = TypedAt(says("Done."), says("Done too."), at=0, text="and c.py")
    bench = Bench(tmp_path, model)
    bench.attach(inbox=model.inbox)
    state = await bench.run("go")
    assert [m.text for m in state["messages"]] == ["go", "Done.", "and c.py", "Done too."]
    assert (state["final_answer"], state["step"]) == ("Done too.", 2)


async def test_a_message_that_met_an_error_is_still_in_the_inbox(tmp_path: Path) -> None:
    model = TypedAt(says("", call("list_directory")), ModelError("down"), at=0, text="only b.py")
    bench = Bench(tmp_path, model)
    bench.attach(inbox=model.inbox)
    state = await bench.run("go")
    model.inbox.forget({m.id for m in state["messages"]})
    assert (state["reason"], model.inbox.texts()) == ("model_error", ["only b.py"])


async def test_a_message_is_handed_over_once(tmp_path: Path) -> None:
    looks = [says("", call("list_directory", id=f"c{n}", max_depth=n)) for n in (1, 2, 3)]
    model = TypedAt(*looks, says("Done."), at=0, text="only b.py")
    bench = Bench(tmp_path, model)
    bench.attach(inbox=model.inbox)
    state = await bench.run("go")
    assert human(state) == ["go", "only b.py"]
    model.inbox.forget({m.id for m in state["messages"]})
    assert model.inbox.texts() == []
