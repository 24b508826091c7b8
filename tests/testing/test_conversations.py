"""Which script a request gets, and which turn of it."""

import asyncio
from typing import Any

import httpx2
import pytest

from bridle.testing import ScriptedModel
from tests.testing.client import PROTOCOLS, SHELL_SCHEMA, Client

TURNS = [{"text": "one", "shell": "true"}, {"text": "two"}, {"text": "three"}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_request_gets_the_same_turn(protocol: str) -> None:
    with ScriptedModel(TURNS) as model:
        client = Client(model.url, protocol, stream=True)
        client.say("x")
        assert [client.read(client.post()).text for _ in range(3)] == ["one"] * 3
        client.go_on()
        client.stream = False
        assert client.go_on().text == "two"
        assert client.ask("and?").text == "three"
        model.assert_finished()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_past_the_end_the_script_says_so(protocol: str) -> None:
    with ScriptedModel([{"text": "only"}]) as model:
        client = Client(model.url, protocol, stream=True)
        client.ask("x")
        model.assert_finished()
        assert client.ask("more").text == "The script has ended."
        assert model.requests[-1].outcome == "overrun"
        with pytest.raises(AssertionError, match="asked for 1 turns more"):
            model.assert_finished()


def test_a_script_that_was_not_played_to_its_end() -> None:
    with ScriptedModel(TURNS) as model:
        with pytest.raises(AssertionError, match="'default' never started"):
            model.assert_finished()
        Client(model.url, "gemini", stream=False).ask("x")
        with pytest.raises(AssertionError, match=r"stopped before turn 2 \(2 of 3 steps"):
            model.assert_finished()


MANY: dict[str, Any] = {
    "turns": [{"text": "for all"}],
    "conversations": [
        {"name": "alice", "match": {"prompt_contains": "Alice"}, "turns": [{"text": "for alice"}]},
        {"name": "bob", "turns": [{"text": "for bob"}]},
        {"match": {"model": "special"}, "turns": [{"text": "for the model"}]},
        {"name": "h", "match": {"header": {"X-Who": "me"}}, "turns": [{"text": "for the header"}]},
        {"name": "s", "match": {"system_contains": "pirate"}, "turns": [{"text": "arr"}]},
    ],
}


def test_conversations_are_chosen_by_what_the_request_carries() -> None:
    with ScriptedModel(MANY) as model:

        def answer(prompt: str, *, url: str = "", key: str = "k", system: str = "Be good.") -> str:
            client = Client(url or model.url, "openai-chat", stream=True, key=key, system=system)
            return client.ask(prompt).text

        assert answer("hi") == "for all"
        assert answer("I am Alice") == "for alice"
        assert answer("hi", url=model.url_for("bob")) == "for bob"
        assert answer("hi", key=model.key_for("bob")) == "for bob"
        assert answer("I am Alice", url=model.url_for("bob")) == "for bob"
        assert answer("hi", system="You are a pirate.") == "arr"
        assert answer("hi", url=model.url_for("unknown")) == "for all"
        client = Client(model.url, "openai-chat", stream=False)
        client.say("hi")
        for extra, expected in (
            ({"model": "special"}, "for the model"),
            ({"header": "me"}, "for the header"),
            ({"header": "you"}, "for all"),
        ):
            body = client.body() | ({"model": extra["model"]} if "model" in extra else {})
            headers = {"x-who": extra["header"]} if "header" in extra else {}
            got = httpx2.post(model.url + client.path, json=body, headers=headers).json()
            assert got["choices"][0]["message"]["content"] == expected
        names = {request.conversation for request in model.requests}
        assert names == {"default", "alice", "bob", "conversation-3", "h", "s"}
        model.assert_finished()


def test_a_request_that_nothing_matches() -> None:
    script = {"conversations": [{"match": {"prompt_contains": "Alice"}, "turns": [{"text": "a"}]}]}
    with ScriptedModel(script) as model:
        client = Client(model.url, "anthropic-messages", stream=True)
        client.say("I am Bob")
        response = client.post()
        assert response.status_code == 400
        assert "'I am Bob'" in response.json()["error"]["message"]
        assert model.requests[-1].outcome == "unmatched"


def test_a_tool_that_is_not_offered_is_an_error_that_names_what_is() -> None:
    with ScriptedModel([{"shell": "ls"}]) as model:
        client = Client(model.url, "openai-responses", stream=True)
        client.tools = [("web_search", SHELL_SCHEMA | {"properties": {}})]
        client.say("x")
        response = client.post()
        assert response.status_code == 400
        assert "offered: web_search" in response.json()["error"]["message"]
        assert model.requests[-1].outcome == "untranslatable"
        with pytest.raises(AssertionError, match="'shell'"):
            model.assert_finished()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_resumed_conversation_goes_on(protocol: str) -> None:
    """A new server with the same script knows where the conversation was."""
    with ScriptedModel(TURNS) as model:
        client = Client(model.url, protocol, stream=True)
        client.ask("x")
        client.go_on()
    with ScriptedModel(TURNS) as later:
        client.url = later.url
        assert client.ask("go on").text == "three"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_history_from_elsewhere_starts_the_script(protocol: str) -> None:
    with ScriptedModel([{"text": "old 1", "shell": "true"}, {"text": "old 2"}]) as model:
        client = Client(model.url, protocol, stream=True)
        client.ask("x")
        client.go_on()
    with ScriptedModel([{"text": "new 1", "shell": "true"}, {"text": "new 2"}]) as later:
        client.url = later.url
        assert client.ask("go on").text == "new 1"
        assert client.go_on().text == "new 2"
        later.assert_finished()


def test_words_that_an_agent_puts_into_the_models_mouth_tell_no_turn() -> None:
    """Aider begins each request with a made-up exchange, also when it restores a conversation."""
    with ScriptedModel([{"text": "one"}, {"text": "two"}]) as model:
        resumed = Client(model.url, "openai-chat", stream=False)
        resumed.messages = [
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "\none\n\n"},
            {"role": "user", "content": "These are the files."},
            {"role": "assistant", "content": "Ok."},
        ]
        assert resumed.ask("second").text == "two"
        fresh = Client(model.url, "openai-chat", stream=False, system="Another.")
        fresh.messages = resumed.messages[2:4]
        assert fresh.ask("first").text == "one"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reply_that_the_agent_forgot_is_not_repeated(protocol: str) -> None:
    """An interrupted agent may drop the reply; a new prompt goes on, a retry does not."""
    with ScriptedModel([{"text": "lost"}, {"text": "two"}, {"text": "three"}]) as model:
        client = Client(model.url, protocol, stream=True)
        client.say("begin")
        client.post()
        client.say("something else")
        assert [client.read(client.post()).text for _ in range(2)] == ["two", "two"]
        client.go_on()
        assert client.ask("and").text == "three"
        model.assert_finished()


def test_what_claude_puts_into_an_interrupted_history_is_no_reply() -> None:
    with ScriptedModel([{"text": "lost"}, {"text": "two"}]) as model:
        client = Client(model.url, "anthropic-messages", stream=True)
        client.say("begin")
        client.post()
        client.messages = []
        client.say("begin\n")
        client.say("Continue from where you left off.")
        client.messages.append({"role": "assistant", "content": "No response requested."})
        client.say("[Request interrupted by user]")
        assert client.ask("go on").text == "two"
        assert model.prompts() == ["begin", "go on"]
        model.assert_finished()


def test_a_new_prompt_after_a_failure_gets_the_turn_that_failed() -> None:
    with ScriptedModel([{"fault": {"status": 401}, "text": "one"}, {"text": "two"}]) as model:
        client = Client(model.url, "openai-responses", stream=True)
        client.say("begin")
        assert client.post().status_code == 401
        assert client.ask("again").text == "one"
        assert client.ask("more").text == "two"
        model.assert_finished()


def test_fifty_conversations_at_once() -> None:
    script = {
        "turns": [
            {"fault": {"status": 500, "times": 2}},
            {"text": "one", "shell": "true", "chunks": 3},
            {"text": "two", "fault": {"cut": True}},
            {"text": "three", "fault": {"slow": 0.01}},
        ]
    }

    async def agent(model: ScriptedModel, number: int) -> list[str]:
        protocol = PROTOCOLS[number % 4]
        # The same prompt for all: they are told apart by the name in the path, or the system.
        named = model.url_for(f"agent-{number}") if number % 2 else model.url
        client = Client(named, protocol, stream=True, system=f"You are {number}.")
        client.say("Do it")
        said: list[str] = []
        async with httpx2.AsyncClient(timeout=60) as http:
            for _ in range(20):
                url = client.url + client.path
                try:
                    got = await http.post(url, json=client.body(), headers=client.headers())
                except httpx2.RemoteProtocolError:
                    said.append("cut")
                    continue
                if got.status_code != 200:
                    said.append(str(got.status_code))
                    continue
                heard = client.read(got)
                client.messages += heard.history
                said.append(heard.text)
                if heard.text == "two":
                    client.say("more")
                if heard.text == "three":
                    break
        return said

    async def main() -> None:
        async with ScriptedModel(script) as model:
            said = await asyncio.gather(*(agent(model, number) for number in range(50)))
            expected = ["500", "500", "one", "cut", "two", "three"]
            assert said == [expected] * 50
            model.assert_finished()
            assert len({request.identity for request in model.requests}) == 50
            assert len(model.requests) == 300

    asyncio.run(main())


def test_agents_of_one_session_with_other_prompts_are_apart() -> None:
    with ScriptedModel([{"text": "one"}, {"text": "two"}]) as model:
        headers = {"x-claude-code-session-id": "s1"}

        def ask(*messages: dict[str, str]) -> str:
            body = {"model": "m", "messages": list(messages)}
            got = httpx2.post(f"{model.url}/v1/messages", json=body, headers=headers).json()
            return str(got["content"][0]["text"])

        main, sub = {"role": "user", "content": "main"}, {"role": "user", "content": "sub task"}
        assert ask(main) == "one"
        assert ask(sub) == "one"
        said = {"role": "assistant", "content": "one"}
        assert ask(main, said, {"role": "user", "content": "go on"}) == "two"
        assert ask(sub, said, {"role": "user", "content": "go on"}) == "two"
        assert len({request.identity for request in model.requests}) == 2


SUMMARISE = "Your task is to create a detailed summary of the conversation so far, ..."


def test_a_compaction_keeps_the_place_in_the_script() -> None:
    script = [{"text": "one", "shell": "true"}, {"text": "two"}, {"text": "three"}, {"text": "4"}]
    with ScriptedModel(script) as model:
        client = Client(model.url, "anthropic-messages", stream=True)
        client.ask("x")
        client.go_on()
        kept = client.messages[-1]
        client.say(SUMMARISE)
        summary = client.read(client.post()).text
        assert "<summary>" in summary
        assert model.requests[-1].side == "compaction"
        client.messages = [{"role": "user", "content": f"Continued. {summary}"}, kept]
        assert client.ask("go on").text == "three"
        assert client.ask("go on").text == "4"
        model.assert_finished()


def test_a_summary_request_that_only_quotes_the_conversation() -> None:
    """Pi asks for a summary in a request of its own, with no history but a quotation."""
    script = [{"text": "one"}, {"fault": {"kind": "context_overflow"}, "text": "two"}]
    with ScriptedModel(script) as model:
        client = Client(model.url, "openai-chat", stream=True)
        client.ask("The task is this")
        client.say("go on")
        assert client.post().status_code == 400
        helper = Client(
            model.url,
            "openai-chat",
            stream=True,
            system="You are a context summarization assistant.",
        )
        helper.tools = []
        summary = helper.ask("<conversation>[User]: The task is this</conversation>").text
        client.messages = []
        client.say(f"Summary: {summary}")
        assert client.ask("go on").text == "two"
        model.assert_finished()


@pytest.mark.parametrize(
    ("system", "text", "side"),
    [
        ("You are a title generator. You output ONLY a title.", "x", "title"),
        ("Analyze if this message indicates a new conversation topic.", "x", "topic"),
        ("You are naming a coding session so the user can pick it out.", "x", "title"),
        ("Extract any file paths that this command reads or modifies.", "Command: ls", "paths"),
        ("You are an expert at analyzing git history.", "Files modified by user:", "examples"),
        ("You are a file search specialist.", "Warmup", "warmup"),
        ("You are a specialized Task Routing AI.", "x", "routing"),
        ("It generates concise, one-line Git commit messages", "x", "commit_message"),
        ("", "<policy_spec>\n## Command prefix extraction examples\n- cd", "command_prefix"),
        ("", "Generate a concise, single-line task title of at most 36 characters", "title"),
        ("", "You are performing a CONTEXT CHECKPOINT COMPACTION. Create", "compaction"),
    ],
)
def test_side_requests_take_no_turn(system: str, text: str, side: str) -> None:
    with ScriptedModel([{"text": "one"}]) as model:
        client = Client(model.url, "openai-chat", stream=True, system=system)
        client.tools = []
        assert client.ask(text).text
        assert (model.requests[0].outcome, model.requests[0].side) == ("side", side)
        assert model.prompts() == []
        assert Client(model.url, "openai-chat", stream=True).ask("x").text == "one"


def test_warming_a_sub_agent_up_takes_no_turn_though_it_has_tools() -> None:
    with ScriptedModel([{"text": "one"}]) as model:
        client = Client(model.url, "anthropic-messages", stream=True, system="A specialist.")
        assert client.tools
        answer = client.ask("Warmup")
        assert answer.text
        assert (answer.usage["input_tokens"], answer.usage["output_tokens"]) == (0, 0)
        assert model.requests[0].side == "warmup"


def test_a_side_request_with_a_schema_gets_data_that_fits_it() -> None:
    schema = {
        "type": "object",
        "properties": {
            "next_speaker": {"type": "string", "enum": ["user", "model"]},
            "title": {"type": "string"},
            "sure": {"type": "boolean"},
        },
    }
    with ScriptedModel([{"text": "one"}]) as model:
        body = {
            "contents": [
                {"role": "user", "parts": [{"text": "Generate a title for this conversation"}]}
            ],
            "generationConfig": {"responseJsonSchema": schema},
        }
        got = httpx2.post(f"{model.url}/v1beta/models/m:generateContent", json=body).json()
        text = got["candidates"][0]["content"]["parts"][0]["text"]
        assert '"title": "Scripted task"' in text
        assert '"sure": false' in text


def test_codex_says_what_a_request_is_for() -> None:
    with ScriptedModel([{"text": "one"}]) as model:
        client = Client(model.url, "openai-responses", stream=False)
        client.say("x")
        for kind, outcome in (
            ("compaction", "side"),
            ("title_generation", "side"),
            ("turn", "turn"),
        ):
            headers = {"x-codex-turn-metadata": f'{{"request_kind": "{kind}"}}'}
            httpx2.post(model.url + client.path, json=client.body(), headers=headers)
            assert model.requests[-1].outcome == outcome


def test_trying_a_model_out_takes_no_turn() -> None:
    with ScriptedModel([{"text": "one"}]) as model:
        client = Client(model.url, "anthropic-messages", stream=False)
        client.say("Hi")
        trial = {name: value for name, value in client.body().items() if name != "tools"}
        httpx2.post(model.url + client.path, json={**trial, "max_tokens": 1})
        assert (model.requests[-1].outcome, model.requests[-1].side) == ("side", "model_check")
        assert client.go_on().text == "one"


def test_an_agent_with_room_for_one_token_has_its_turn() -> None:
    with ScriptedModel([{"text": "one"}]) as model:
        client = Client(model.url, "anthropic-messages", stream=False)
        client.say("Hi")
        body = {"tools": [{"name": "t", "input_schema": {"type": "object"}}], **client.body()}
        httpx2.post(model.url + client.path, json={**body, "max_tokens": 1})
        assert model.requests[-1].outcome == "turn"
