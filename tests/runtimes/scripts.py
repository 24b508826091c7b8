"""Scripts that the tests of several real CLIs play, and what they must show."""

SCRIPT = """
- text: I will write the file now.
  shell: "printf 'made by shell\\\\n' > shell.txt"
  usage: {input_tokens: 300, output_tokens: 40, cache_read_tokens: 70, cache_write_tokens: 5}
- thinking: Nearly there.
  text: Done. ORCHESTRA_COMPLETE
  chunks: 4
  usage: {input_tokens: 500, output_tokens: 60, cache_read_tokens: 30}
"""

SCRIPT_STEPS = [
    *("session_start", "state", "agent_start"),
    *("message_start", "text_start", "text_delta", "text_end", "message_end"),
    *("tool_execution_start", "tool_execution_end"),
    *("message_start", "thinking_start", "thinking_delta", "thinking_end"),
    *("text_start", "text_delta", "text_end", "message_end"),
    *("usage", "agent_end", "state", "session_end"),
]
"""The steps of `SCRIPT`, the same for every runtime."""
