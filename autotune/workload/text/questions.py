"""Questions of many kinds, short ones and such that bring their own material."""

from __future__ import annotations

from collections.abc import Callable

from autotune.workload.text import everyday, languages, output, prose
from autotune.workload.text.pen import Pen
from autotune.workload.text.python import python
from autotune.workload.text.words import PEOPLE, PLACES, VERBS

_LANGUAGES = (
    "French", "German", "Spanish", "Italian", "Polish", "Swedish", "Turkish", "Dutch", "Portuguese",
    "Japanese", "Korean", "Czech", "Finnish", "Greek", "Vietnamese", "Swahili",
)  # fmt: skip
_READERS = (
    "a curious child of nine", "somebody who is new to it", "an expert in another field",
    "my grandmother", "a busy manager", "students before an exam", "a sceptical neighbour",
    "tourists", "a jury", "readers of a local newspaper",
)  # fmt: skip
_TONES = (
    "friendly", "formal", "shorter", "more precise", "less dramatic", "warmer", "firm but polite",
    "like a fairy tale", "without any adjectives", "in plain English", "as a list", "as a dialogue",
)  # fmt: skip
_LIMITS = (
    "", "", "", " In at most five sentences.", " Give one example.", " Use a table.", " No lists.",
    " Say how sure you are.", " Begin with the conclusion.", " Name a common mistake, too.",
)  # fmt: skip


def question(pen: Pen, n_chars: int) -> str:
    """A question of about this length; long ones carry a text that they are about."""
    if n_chars < 400:
        return _lead(pen, pen.pick(_SHORT)(pen), n_chars)
    make, asks = pen.pick(_LONG)
    asked = f"{asks(pen)}{pen.pick(_LIMITS)}"
    material = make(pen, n_chars - len(asked) - 2)
    return f"{asked}\n\n{material}" if pen.draw() < 0.6 else f"{material}\n\n{asked}"


def follow_up(pen: Pen, n_chars: int) -> str:
    """What is said to an answer."""
    if n_chars < 240:
        return _lead(pen, pen.pick(_FOLLOWING)(pen), n_chars)
    return question(pen, n_chars)


def reply(pen: Pen, n_chars: int) -> str:
    """An answer to a question, of the kind that a helpful person gives."""
    if n_chars < 500 or pen.draw() < 0.6:
        return everyday.story(pen, n_chars)
    return pen.pick((prose.bullets, everyday.recipe, prose.prose, prose.document))(pen, n_chars)


def _lead(pen: Pen, asked: str, n_chars: int) -> str:
    """The question with some circumstances before it where there is room for them."""
    left = n_chars - len(asked)
    if left < 60:
        return asked if left > -40 else asked.split(". ")[0]
    return f"{everyday.story(pen, left)} {asked}"


def _explain(pen: Pen) -> str:
    return (
        f"Explain {everyday.topic(pen)} to {pen.pick(_READERS)}, starting from "
        f"{everyday.topic(pen)}.{pen.pick(_LIMITS)}"
    )


def _compare(pen: Pen) -> str:
    one, other, third_one = (everyday.topic(pen) for _ in range(3))
    return (
        f"What do {one} and {other} have in common, and which of them matters more for {third_one} "
        f"in {pen.pick(PLACES)}?{pen.pick(_LIMITS)}"
    )


def _plan(pen: Pen) -> str:
    return f"Make a plan for {pen.number(2, 14)} days of {everyday.errand(pen)}.{pen.pick(_LIMITS)}"


def _invent(pen: Pen) -> str:
    kind = pen.pick(("poem", "riddle", "short story", "speech", "slogan", "limerick", "toast"))
    return (
        f"Write a {kind} about {everyday.topic(pen)} for {everyday.someone(pen)} in which "
        f"{pen.pick(PEOPLE)} mentions {everyday.topic(pen)}."
    )


def _advise(pen: Pen) -> str:
    return (
        f"{everyday.sentence(pen)} Should {everyday.someone(pen)} {pen.pick(VERBS)} it or rather "
        f"{pen.pick(VERBS)} {everyday.topic(pen)}?"
    )


def _define(pen: Pen) -> str:
    return f"What is the difference between {everyday.topic(pen)} and {everyday.topic(pen)}?"


def _code(pen: Pen) -> str:
    return (
        f"Write `{pen.function()}({pen.snake()}, {pen.snake()})` in "
        f"{pen.pick(('Python', 'TypeScript', 'Rust', 'Go', 'SQL'))}: {prose.clause(pen)}."
    )


def _translate_one(pen: Pen) -> str:
    return f"Translate into {pen.pick(_LANGUAGES)}: {everyday.sentence(pen)}"


def _object(pen: Pen) -> str:
    return f"That is not what I meant: {everyday.sentence(pen)} Try again, {pen.pick(_TONES)}."


def _deepen(pen: Pen) -> str:
    return f"And how does that change with {everyday.topic(pen)}?{pen.pick(_LIMITS)}"


def _doubt(pen: Pen) -> str:
    return f"Are you sure? {pen.pick(PEOPLE)} says that it depends on {everyday.topic(pen)}."


def _summarise(pen: Pen) -> str:
    return f"Summarise this for {pen.pick(_READERS)} and tell me what is left open."


def _rewrite(pen: Pen) -> str:
    return f"Rewrite this: {pen.pick(_TONES)}, and {pen.pick(_TONES)} towards the end."


def _answer_mail(pen: Pen) -> str:
    return (
        f"Draft a reply to this. {pen.pick(PEOPLE)} agrees about {everyday.topic(pen)}, but not at "
        f"once, and wants to sound {pen.pick(_TONES)}."
    )


def _translate(pen: Pen) -> str:
    return f"Translate into {pen.pick(_LANGUAGES)} for {pen.pick(_READERS)}. Keep the names."


def _tabulate(pen: Pen) -> str:
    return f"Who has to do what, and by when? Mark everything about {everyday.topic(pen)}."


def _read_figures(pen: Pen) -> str:
    return f"Which of these figures stand out, and could {everyday.topic(pen)} explain them?"


def _explain_code(pen: Pen) -> str:
    return f"What does this do, and where would it fail? I want to {pen.pick(VERBS)} it."


_SHORT: tuple[Callable[[Pen], str], ...] = (
    _explain, _compare, _plan, _invent, _advise, _define, _code, _translate_one,
    everyday.word_problem, everyday.word_problem,
)  # fmt: skip
_FOLLOWING: tuple[Callable[[Pen], str], ...] = (_object, _deepen, _doubt, _define, _translate_one)
_LONG: tuple[tuple[Callable[[Pen, int], str], Callable[[Pen], str]], ...] = (
    (everyday.story, _summarise), (everyday.story, _rewrite), (everyday.story, _translate),
    (everyday.mail, _answer_mail), (everyday.mail, _rewrite), (everyday.notes, _tabulate),
    (everyday.notes, _summarise), (everyday.recipe, _rewrite), (everyday.table, _read_figures),
    (prose.document, _summarise), (prose.prose, _rewrite), (python, _explain_code),
    (languages.sql, _explain_code), (output.log, _summarise), (prose.review, _tabulate),
)  # fmt: skip
