"""Token counts in everybody's names."""

import pytest

import bridle


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param({"input_tokens": 5, "output_tokens": 2}, (5, 2, 0, 0, 0), id="E097 long"),
        pytest.param({"input": 5, "output": 2}, (5, 2, 0, 0, 0), id="E097 short"),
        pytest.param(
            {
                "input_tokens": 5,
                "output_tokens": 2,
                "cache_read_input_tokens": 7,
                "cache_creation_input_tokens": 3,
            },
            (5, 2, 7, 3, 0),
            id="Anthropic",
        ),
        pytest.param(
            {
                "prompt_tokens": 12,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 7},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            (5, 4, 7, 0, 1),
            id="OpenAI chat",
        ),
        pytest.param(
            {"input_tokens": 12, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 7}},
            (5, 4, 7, 0, 0),
            id="OpenAI responses",
        ),
        pytest.param(
            {
                "promptTokenCount": 12,
                "candidatesTokenCount": 4,
                "cachedContentTokenCount": 7,
                "thoughtsTokenCount": 3,
            },
            (5, 7, 7, 0, 3),
            id="Gemini",
        ),
        pytest.param(
            {"input": 5, "output": 2, "cacheRead": 7, "cacheWrite": 3, "reasoning": 1},
            (5, 2, 7, 3, 1),
            id="Pi",
        ),
        pytest.param(
            {"inputTokens": 12, "outputTokens": 2, "cacheReadTokens": 7},
            (5, 2, 7, 0, 0),
            id="camel",
        ),
        pytest.param(
            {"input": None, "output": "many", "cached": True}, (0, 0, 0, 0, 0), id="wrong"
        ),
        pytest.param({}, (0, 0, 0, 0, 0), id="empty"),
    ],
)
def test_counts_mean_the_same_whoever_wrote_them(
    given: dict[str, object], wanted: tuple[int, ...]
) -> None:
    found = bridle.normalize_usage(given)
    assert (
        found.input_tokens,
        found.output_tokens,
        found.cache_read_tokens,
        found.cache_write_tokens,
        found.reasoning_tokens,
    ) == wanted
