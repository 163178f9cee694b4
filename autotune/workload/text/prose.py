"""Prose of people who work on software: reports, reviews, notes and what they ask for."""

from __future__ import annotations

from autotune.workload.text.pen import Pen, fill, gerund, past, plural
from autotune.workload.text.words import ADJECTIVES, ADVERBS, NOUNS, PEOPLE, PLACES, ROLES, VERBS

_UNITS = ("seconds", "minutes", "hours", "rows", "requests", "percent", "kilobytes", "retries")
_SYSTEMS = ("staging", "production", "the nightly job", "CI", "a fresh checkout", "the pilot site")
_SINCE = ("since", "ever since", "after", "just before", "while")
_LINKS = ("because", "although", "even though", "so that", "unless", "whenever", "until", "as")
_OPENERS = (
    "To be fair,", "In practice,", "As far as I can see,", "On the other hand,", "For the record,",
    "Strangely,", "In short,", "By contrast,", "More to the point,", "At first sight,", "Sadly,",
    "Looking closer,", "Under load,", "With the defaults,", "Apart from that,", "In hindsight,",
)  # fmt: skip
_WISHES = (
    "find out why", "write a test that shows that", "make sure that", "check whether",
    "explain in two sentences why", "list the places where", "decide whether it is right that",
    "propose the smallest change after which", "show me the line where", "prove or refute that",
    "measure how often", "add a log line that tells when", "sketch a design in which",
)  # fmt: skip
_ENDINGS = (
    "Keep the public interface.", "No new dependency, please.", "Run the tests before you answer.",
    "A short answer is enough.", "Say what you are not sure about.", "Leave the migration alone.",
    "The deadline is tonight.", "Do not touch generated files.", "Please cite file and line.",
    "One commit, one purpose.", "Backwards compatibility matters here.", "Start with the tests.",
    "Think about concurrent callers.", "Mind the memory, the box is small.",
)  # fmt: skip


def clause(pen: Pen) -> str:
    """A main clause, without a capital letter or a stop."""
    shape = int(pen.draw() * 9)
    if shape == 0:
        return f"{pen.thing()} {pen.does()} {pen.things()}"
    if shape == 1:
        return f"{pen.thing()} is {pen.pick(ADVERBS)} {past(pen.pick(VERBS))} by {pen.thing()}"
    if shape == 2:
        return f"`{pen.function()}` {pen.does()} {pen.things()} instead of {pen.things()}"
    if shape == 3:
        return f"{pen.things()} must not {pen.pick(VERBS)} {pen.thing()}"
    if shape == 4:
        return f"{pen.number(2, 970)} {pen.pick(_UNITS)} pass before {pen.thing()} {pen.does()} it"
    if shape == 5:
        return f"nobody {past(pen.pick(VERBS))} `{pen.snake()}` in {pen.pick(_SYSTEMS)}"
    if shape == 6:
        return f"{pen.pick(PEOPLE)} {past(pen.pick(VERBS))} {pen.thing()} in {pen.pick(PLACES)}"
    if shape == 7:
        return f"{gerund(pen.pick(VERBS))} {pen.things()} is {pen.pick(ADJECTIVES)} and it shows"
    return f"{pen.thing()} and {pen.thing()} {pen.pick(VERBS)} the same {pen.pick(NOUNS)}"


def sentence(pen: Pen) -> str:
    shape = pen.draw()
    if shape < 0.35:
        text = clause(pen)
    elif shape < 0.7:
        text = f"{clause(pen)}, {pen.pick(_LINKS)} {clause(pen)}"
    elif shape < 0.85:
        text = f"{pen.pick(_OPENERS)} {clause(pen)}"
    else:
        text = f"{pen.pick(_SINCE)} {gerund(pen.pick(VERBS))} {pen.things()}, {clause(pen)}"
    # A code span at the front keeps its case.
    return f"{text[0].upper()}{text[1:]}."


def prose(pen: Pen, n_chars: int) -> str:
    """Paragraphs of about this length."""
    return fill(lambda: _paragraph(pen, min(n_chars, 520)), n_chars, "\n\n")


def _paragraph(pen: Pen, n_chars: int) -> str:
    wanted = int(n_chars * (0.4 + 0.6 * pen.draw()))
    return fill(lambda: sentence(pen), wanted, " ")


def wish(pen: Pen) -> str:
    """What somebody wants done, in one or two sentences."""
    asked = f"{pen.pick(_WISHES)} {clause(pen)}"
    lead = pen.pick(("", "", "please ", "next, ", "before anything else, ", "when you can, "))
    text = lead + asked
    ending = f" {pen.pick(_ENDINGS)}" if pen.draw() < 0.5 else ""
    return f"{text[0].upper()}{text[1:]}.{ending}"


def bullets(pen: Pen, n_chars: int) -> str:
    mark = pen.pick(("- ", "* ", "1. ", "- [ ] "))
    return fill(lambda: f"{mark}{sentence(pen)}", n_chars, "\n")


def document(pen: Pen, n_chars: int) -> str:
    """A page of a handbook in Markdown."""
    title = f"# {pen.pick(VERBS).capitalize()} {pen.things()}\n\n"
    return title + fill(lambda: _section(pen), n_chars - len(title), "\n\n")


def _section(pen: Pen) -> str:
    head = f"## {pen.pick(ADJECTIVES).capitalize()} {plural(pen.pick(NOUNS))}"
    shape = pen.draw()
    if shape < 0.5:
        return f"{head}\n\n{_paragraph(pen, 420)}"
    if shape < 0.75:
        return f"{head}\n\n{sentence(pen)}\n\n{bullets(pen, 300)}"
    rows = "\n".join(
        f"| `{pen.snake()}` | {pen.number(0, 4096)} | {clause(pen)} |"
        for _ in range(pen.number(2, 5))
    )
    return f"{head}\n\n| {pen.pick(NOUNS)} | default | meaning |\n|---|---|---|\n{rows}"


def review(pen: Pen, n_chars: int) -> str:
    """Comments on a change, as people leave them."""

    def comment() -> str:
        where = f"{pen.path(pen.pick(('.py', '.ts', '.rs', '.go')))}:{pen.number(1, 900)}"
        return f"{pen.pick(PEOPLE)} on {where}\n> {sentence(pen)}\n{sentence(pen)}"

    return fill(comment, n_chars, "\n\n")


def thought(pen: Pen, n_chars: int) -> str:
    """What an agent says between two tool calls."""
    starts = (
        f"The {pen.pick(ROLES)} looks right, so the fault is elsewhere.",
        f"That narrows it to `{pen.function()}`.",
        f"Two of the {pen.number(3, 40)} cases still fail.",
        f"I will read `{pen.path('.py')}` first.",
        f"So {clause(pen)}.",
        f"This confirms that {clause(pen)}.",
        f"Not what I expected: {clause(pen)}.",
    )
    start = pen.pick(starts)
    if n_chars < len(start) + 60:
        return start
    return f"{start} {fill(lambda: sentence(pen), n_chars - len(start), ' ')}"
