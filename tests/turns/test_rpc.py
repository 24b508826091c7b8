"""Requests and responses are paired by id."""

from bridle.turns.rpc import Requests, encode_line


def test_ids_are_given_out_in_order_and_never_twice() -> None:
    requests: Requests[str, None] = Requests("bridle-{}".format)
    first = requests.open("one")
    assert requests.close(first) == "one"
    assert [first, requests.open("two"), requests.open("two")] == [
        "bridle-1",
        "bridle-2",
        "bridle-3",
    ]


def test_a_response_reaches_its_handler_once() -> None:
    taken: list[str] = []
    requests: Requests[int, str] = Requests(int)
    request_id = requests.open("initialize", taken.append)
    assert requests.respond(request_id, "hello")
    assert not requests.respond(request_id, "hello again")
    assert taken == ["hello"]


def test_a_response_with_an_unknown_id_is_not_taken() -> None:
    requests: Requests[int, str] = Requests(int, first=0)
    requests.open("initialize")
    for unknown in ("0", None, 1):
        assert not requests.respond(unknown, "")
        assert requests.close(unknown) is None
    assert requests.pending == ["initialize"]


def test_a_handler_may_open_the_next_request() -> None:
    requests: Requests[int, str] = Requests(int)

    def ask_again(response: str) -> None:
        requests.open("second")

    requests.open("first", ask_again)
    assert requests.respond(1, "")
    assert requests.pending == ["second"]


def test_a_blocking_request_blocks_until_its_response() -> None:
    requests: Requests[int, str] = Requests(int)
    requests.open("get_state")
    assert not requests.blocked
    request_id = requests.open("set_model", blocks=True)
    assert requests.blocked
    requests.respond(request_id, "")
    assert not requests.blocked


def test_a_line_is_one_json_object_and_a_newline() -> None:
    assert encode_line({"text": "two\nlines"}) == b'{"text":"two\\nlines"}\n'
