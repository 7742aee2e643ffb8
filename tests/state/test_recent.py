"""What is known of objects by their identity: theirs alone, and of the newest few."""

from lockstitch.state.recent import Recent


def test_an_object_is_known_by_itself_and_not_by_what_it_equals() -> None:
    recent, one, other = Recent[list[int], str](2), [1], [1]
    recent.keep(one, "one")
    assert (recent.find(one), recent.find(other)) == ("one", None)


def test_what_is_taken_is_forgotten() -> None:
    recent, one = Recent[list[int], str](2), [1]
    recent.keep(one, "one")
    assert (recent.take(one), recent.take(one), recent.find(one)) == ("one", None, None)


def test_the_oldest_is_forgotten_where_there_are_too_many() -> None:
    recent, keys = Recent[list[int], int](2), [[0], [1], [2]]
    for number, key in enumerate(keys):
        recent.keep(key, number)
    assert [recent.find(key) for key in keys] == [None, 1, 2]
