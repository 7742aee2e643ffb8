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


def test_the_last_words_have_a_line_of_their_own(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: One.")
    assert "\nGo on: lockstitch run --thread " in lockstitch("chat", stdin="first\n").out


def test_a_talk_that_is_left_waiting_says_how_to_answer(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- calls: [{tool: request_input, args: {question: Which one}}]\n- say: One.")
    out = lockstitch("chat", stdin="first\n").out
    assert "It waits for you. Answer: lockstitch run --thread " in out
    assert "Go on:" not in out


def test_a_script_is_told_how_its_last_line_ended(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: One.\n- calls: [{tool: request_input, args: {question: Which one}}]\n- say: Two.")
    assert lockstitch("chat", stdin="first\n").code == 0
    assert lockstitch("chat", "--continue", stdin="second\n").code == 7


def test_a_new_prompt_says_what_it_drops(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- calls: [{tool: request_input, args: {question: Which one}}]\n- say: One.")
    done = lockstitch("chat", stdin="first\n\nsecond\n")
    assert done.err.count("A question: Which one") == 1
    assert "(request_input waited for your word, and is dropped)" in done.out
    assert done.code == 0
