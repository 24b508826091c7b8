"""The completion marker: when an agent says it, and when it only speaks about it."""

import pytest

from bridle.core.marker import find_marker

M = "ORCHESTRA_COMPLETE"
PROMPT = f"Fix the bug.\nWhen you are done, print {M} on a line of its own.\n"

SAID = {
    "alone": M,
    "own line": f"All done.\n\n{M}\n",
    "own line, indented": f"All done.\n    {M}  \n",
    "carriage return": f"All done.\r\n{M}\r\n",
    "end of a sentence": f"All tests pass. {M}",
    "end of a sentence with a full stop": f"All tests pass. {M}.",
    "start of a line": f"{M}: everything passes",
    "bold": f"**{M}**",
    "bold after a sentence": f"I am done. **{M}**",
    "italic": f"_{M}_",
    "heading": f"## {M}",
    "code span of its own": f"`{M}`",
    "bold code span": f"**`{M}`**",
    "emoji": f"✅ {M} 🎉",
    "label": f"Status: {M}",
    "bold label": f"**Final status:** {M}",
    "label after a sentence": f"I ran them. All tests pass: {M}",
    "dash after a label": f"Everything is done — {M}",
    "in brackets": f"[{M}]",
    "in a rule": f"--- {M} ---",
    "second sentence": f"{M}. All tests pass.",
    "after an announcement of now": f"I will now print the marker:\n{M}",
    "after a heading": f"Final output:\n\n{M}",
    "after a list": f"1. fixed\n2. tested\n\n{M}",
    "after a plan": f"Plan:\n- [ ] fix\n- [ ] {M}\n\nAll fixed.\n\n{M}",
    "tick": f"All tests pass ✅ {M}",
    "dash": f"{M} - everything passes",
    "exclamation": f"{M}!",
    "after a quotation": f"> print {M} when done\n\n{M}",
    "after a fence": f"```\n{M}\n```\n{M}",
    "after a repeated instruction": f"When you are done, print {M} on a line of its own.\n{M}",
    "after a nested fence": f"````\n```\n{M}\n```\n````\n{M}",
    "after a fence with a language": f"```sh\necho hi\n```\n{M}",
    "after a code span with three ticks": f"Use ```x``` here.\n{M}",
    "line that opens and closes a fence": f"```one line```\n{M}",
}

NOT_SAID = {
    "nothing": "All done.",
    "quoted": f'I will print "{M}" when I am done.',
    "quoted at the end": f'When I am done I print "{M}".',
    "single quotes at the end": f"I shall say '{M}'",
    "curly quotes": f"The word is “{M}”.",
    "a quoted line": f'"{M}"',
    "backticks in a sentence": f"I will print `{M}` now.",
    "backticks at the end of a sentence": f"When done I will print `{M}`.",
    "backticks at the start of a sentence": f"`{M}` comes when I am done.",
    "middle of a sentence": f"I will write {M} once the tests pass.",
    "blockquote": f"> {M}",
    "nested blockquote": f"  >> {M}",
    "fenced": f"```\n{M}\n```",
    "fenced with tildes": f"~~~\n{M}\n~~~",
    "fence left open": f"```python\nprint(1)\n{M}",
    "longer word": f"{M}D\nNOT_{M}",
    "glued": f"x{M}\n{M}2\n{M}_SOON",
    "repeated instruction": f"When you are done, print {M} on a line of its own.",
    "repeated instruction inside more": (
        f"You said: When you are done, print {M} on a line of its own. I will."
    ),
    "repeated with another case and spaces": (
        f"when you are done,  print {M} on a line of its own"
    ),
    "command": f"echo {M}",
    "assignment": f"marker = {M}",
    "negated": f"I cannot say {M}",
    "not yet": f"not yet {M}",
    "told of beforehand": f"{M} will follow when I am done",
    "part of a list": f"{M}, or something like it",
    "conditional": f"Once the tests pass I will print {M}",
    "plan with a colon": f"Once finished I will say: {M}",
    "plan on the line before": f"Once finished I will say:\n\n{M}",
    "at the end, on the next line": f"At the very end I say:\n{M}",
    "plan in steps": f"Step 1: fix. Step 2: {M}",
    "step": f"Step 3: {M}",
    "bold step": f"**Step 3:** {M}",
    "arrows": f"fix -> test -> {M}",
    "arrow signs": f"fix → test → {M}",
    "semicolons": f"Plan: fix; test; {M}",
    "last step": f"Last step: {M}",
    "to do": f"TODO: {M}",
    "next": f"Next: {M}",
    "not yet with a colon": f"Not yet: {M}",
    "not yet with a dash": f"Not yet — {M}",
    "not yet as a sentence": f"Not yet. {M}",
    "not done": f"The work is not done yet. {M}",
    "question": f"{M}?",
    "question and no": f"{M}? Not yet.",
    "question in bold": f"**{M}**?",
    "question before": f"What do I print at the end? {M}",
    "is it": f"Is it {M}?",
    "bullet": f"- {M}",
    "star": f"* {M}",
    "round bullet": f"• {M}",
    "numbered": f"2. {M}",
    "numbered with a bracket": f"2) {M}",
    "numbered and bold": f"**2.** {M}",
    "numbered heading": f"## 2. {M}",
    "lettered": f"b) {M}",
    "open box": f"- [ ] {M}",
    "ticked box": f"- [x] {M}",
    "box without a bullet": f"[ ] {M}",
    "box sign": f"☐ {M}",
    "cross": f"❌ {M}",
    "hourglass": f"⏳ {M}",
    "item with a sentence": f"3. Run the tests. {M}",
    "table": f"| status | {M} |",
    "explained": f"{M}: printed when all tests pass",
    "explained with a dash": f"{M} - not yet",
    "condition in brackets": f"{M} (once the tests pass)",
    "definition": f"The completion marker: {M}",
}


@pytest.mark.parametrize("text", SAID.values(), ids=SAID.keys())
def test_it_is_said(text: str) -> None:
    assert find_marker(text, M, PROMPT)


@pytest.mark.parametrize("text", NOT_SAID.values(), ids=NOT_SAID.keys())
def test_it_is_not_said(text: str) -> None:
    assert not find_marker(text, M, PROMPT)


def test_instructions_that_are_the_marker_itself_do_not_forbid_it() -> None:
    prompt = f"End with this line:\n{M}\n"
    assert find_marker(f"Done.\n{M}", M, prompt)
    assert find_marker(f"Done.\n**{M}**", M, prompt)


@pytest.mark.parametrize(
    "marker", ["DONE!", "<promise>COMPLETE</promise>", "*** end ***", "fertig"]
)
def test_markers_of_any_shape(marker: str) -> None:
    assert find_marker(f"Well.\n{marker}\n", marker, f"Say {marker} at the end.")
    assert find_marker(f"Well. {marker}", marker)
    assert not find_marker(f"x{marker}x", marker)
    assert not find_marker(f"Say {marker} at the end.", marker, f"Say {marker} at the end.")


def test_a_marker_that_ends_its_sentence_may_be_followed_by_another() -> None:
    assert find_marker("Done. ORCHESTRA_COMPLETE", "Done.")
    assert find_marker("All tests pass. Done.", "Done.")
    assert not find_marker("- Done. ORCHESTRA_COMPLETE", "Done.")
    assert not find_marker("When it is Done. ORCHESTRA_COMPLETE", "Done.")


@pytest.mark.parametrize("marker", ["- done", "1. finish", "[x] all"])
def test_a_marker_that_looks_like_a_list_item_counts_on_its_own_line(marker: str) -> None:
    assert find_marker(f"Well.\n{marker}\n", marker)
    assert not find_marker(f"- {marker}", marker)


def test_no_marker_is_never_found() -> None:
    assert not find_marker("anything", "")
    assert not find_marker("", M)
