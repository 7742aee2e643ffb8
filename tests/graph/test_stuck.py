"""A run that goes in a circle is told so, and then ended."""

from pathlib import Path

from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.note import is_note


async def test_a_circle_is_told_and_then_ends_the_run(tmp_path: Path) -> None:
    again = [says("", call("read_file", id=f"c{n}", path="missing.txt")) for n in range(9)]
    bench = Bench(tmp_path, FakeModel(*again))
    state = await bench.run("go", max_steps=50)
    assert (state["reason"], len(state["steps"])) == ("stuck", 5)
    assert "5 times" in state["final_answer"]
    told = [m.text for m in state["messages"] if is_note(m)]
    assert len(told) == 1
    assert "going in a circle" in told[0]
    assert bench.events[-1]["reason"] == "stuck"


async def test_a_run_that_turns_round_after_the_word_goes_on(tmp_path: Path) -> None:
    again = [says("", call("read_file", id=f"c{n}", path="missing.txt")) for n in range(4)]
    turned = [
        says("", call("write_file", id="w", path="missing.txt", content="x\n")),
        *again[:1],
        says("done"),
    ]
    state = await Bench(tmp_path, FakeModel(*again, *turned)).run("go", max_steps=50)
    assert state["reason"] == "answered"


async def test_a_new_message_begins_to_count_anew(tmp_path: Path) -> None:
    again = [says("", call("get_tasks", id=f"c{n}")) for n in range(4)]
    bench = Bench(tmp_path, FakeModel(*again, says("hm"), *again, says("hm")))
    await bench.run("go")
    assert (await bench.run("go"))["reason"] == "answered"
