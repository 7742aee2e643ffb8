from collections.abc import Callable
from typing import Any

Lockstitch = Callable[..., Any]
Scenario = Callable[[str], str]


def test_piped_lines_are_prompts_on_one_thread(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: One.\n- say: Two.")
    done = lockstitch("chat", stdin="first\n\nsecond\n")
    assert done.code == 0
    assert done.out.index("One.") < done.out.index("Two.")
    assert len(lockstitch("threads", "--json").events) == 1


def test_exit_leaves_before_the_rest_is_read(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: One.")
    done = lockstitch("chat", stdin="/exit\nfirst\n")
    assert "One." not in done.out
    assert "Go on:" not in done.out  # nothing was begun, so there is nothing to go on with


def test_a_run_that_fails_does_not_end_the_talk(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- {say: One., fail: {status: 400}}")
    done = lockstitch("chat", stdin="first\nsecond\n")
    assert done.code == 0
    assert done.out.index("model_error · ") < done.out.index("answered · 1 step")
    assert "the endpoint refused the request" in done.err
