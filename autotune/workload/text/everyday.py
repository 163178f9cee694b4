"""What people write outside of work on software: mail, notes, stories, recipes, tables."""

from __future__ import annotations

from autotune.workload.text.pen import Pen, fill, gerund, past, plural, third
from autotune.workload.text.words import ADJECTIVES, ADVERBS, PEOPLE, PLACES, VERBS

TOPICS = " ".join(
    """
tides, glaciers, beekeeping, sourdough, opera, chess, vaccines, inflation, mortgages, volcanoes,
coral reefs, bicycle gears, solar panels, the printing press, the Silk Road, photosynthesis,
rainbows, jet engines, black holes, sign language, night trains, composting, migraine, sleep,
nutrition, marathon training, allotments, weaving, pottery, watercolour, jazz harmony, film
editing, bridges, earthquakes, tsunami warnings, wetlands, street trees, tram networks, drinking
water, recycling, heat pumps, insulation, batteries, hydrogen, bookkeeping, pensions, compound
interest, exchange rates, inheritance, tenancy law, patents, jury trials, elections, the census,
time zones, calendars, map projections, satellite navigation, lighthouses, whales, bird migration,
wolves, honeybees, fungi, lichens, orchids, pruning, vineyards, olive oil, fermentation, cheese,
green tea, coffee roasting, chocolate, spices, kitchen knives, typography, dialects, loanwords,
metre in poetry, fairy tales, diaries, obituaries, speeches, rhetoric, debating, mediation,
mentoring, job interviews, remote work, shift work, apprenticeships, scholarships, exams,
libraries, museums, restoration, archaeology, carbon dating, cave paintings, aqueducts, castles,
windmills, canals, clocks, pendulums, lenses, telescopes, microscopes, magnetism, semiconductors,
radio, antennas, cryptography, probability, sampling, regression, queues, game theory, graph
colouring, prime numbers, fractions, logarithms, avalanches, monsoons, soil erosion, tuning a
piano, choirs, puppet theatre, origami, knots, sailing, rowing, judo, swimming lessons, first aid,
allergies, hearing aids, braille, school lunches, homework
""".split()
).split(", ")

_GOODS = """
apples apricots barley basil beans beetroot berries biscuits blankets bolts books bottles bowls
boxes bricks brushes butter buttons cabbages cakes candles carpets carrots chairs cherries coats
coins cups curtains dates desks dumplings eggs envelopes figs flags flour garlic ginger glasses
gloves grapes hammers hats herbs honey jars kettles keys ladders lamps lemons lentils maps marbles
melons mirrors mushrooms nails needles noodles notebooks nuts oats olives onions oranges paint
paper parsley peaches pears peas pencils pens peppers pillows pipes plates plums posters potatoes
pots pumpkins quilts radishes raisins rice ribbons ropes rugs salt scarves screws seeds shelves
shirts shoes soap spinach spoons stamps stones stools sugar tables tiles tomatoes towels toys
turnips umbrellas vases walnuts wheels wool
""".split()
_PLACES_NEAR = """
airport attic bakery balcony bank barn beach bookshop bridge cafe camp cellar chapel cinema
classroom clinic corridor courtyard farm ferry field forest garage garden hall harbour hill hotel
kitchen lake library lighthouse market meadow mill mountain museum office orchard park pharmacy
pier platform pond quarry river roof school square stable station studio theatre tower tunnel
valley village workshop
""".split()
_TRADES = """
actor architect baker barber bookkeeper botanist butcher carpenter chemist clerk coach cook dentist
diver doctor driver editor electrician farmer firefighter fisher gardener geologist glazier guide
historian innkeeper janitor jeweller journalist judge lawyer librarian locksmith mason mechanic
midwife miner musician nurse optician painter pharmacist photographer pilot plumber poet porter
potter printer roofer sailor sculptor shepherd singer surveyor tailor teacher translator vet waiter
weaver welder
""".split()
_FEELINGS = """
amused anxious ashamed bored calm cheerful confused curious delighted disappointed doubtful eager
embarrassed excited furious grateful homesick hopeful impatient jealous lonely nervous patient
proud puzzled relieved restless satisfied shy sorry surprised suspicious tired uneasy worried
""".split()
_TIMES = (
    "last spring", "on Tuesday", "before sunrise", "in the second week", "years ago", "at noon",
    "during the storm", "over the holidays", "after the meeting", "on the way home", "in August",
    "twice a month", "by the end of the day", "when the shops closed", "at the weekend", "tonight",
    "without any warning", "in the first hour", "shortly before midnight", "ten days later",
)  # fmt: skip
_JOINS = ("and", "but", "so", "because", "although", "while", "until", "even if", "since", "yet")


def topic(pen: Pen) -> str:
    return pen.pick(TOPICS)


def someone(pen: Pen) -> str:
    shape = pen.draw()
    if shape < 0.45:
        return pen.pick(PEOPLE)
    if shape < 0.75:
        return f"the {pen.pick(_TRADES)}"
    return f"{pen.pick(('an old', 'a young', 'my', 'our', 'their', 'another'))} {pen.pick(_TRADES)}"


def _place(pen: Pen) -> str:
    if pen.draw() < 0.5:
        return f"the {pen.pick(_PLACES_NEAR)}"
    return f"the {pen.pick(ADJECTIVES)} {pen.pick(_PLACES_NEAR)} in {pen.pick(PLACES)}"


def _event(pen: Pen) -> str:
    shape = int(pen.draw() * 8)
    if shape == 0:
        return f"{someone(pen)} {past(pen.pick(VERBS))} the {pen.pick(_GOODS)} near {_place(pen)}"
    if shape == 1:
        return f"{someone(pen)} felt {pen.pick(_FEELINGS)} {pen.pick(_TIMES)}"
    if shape == 2:
        return f"{pen.number(2, 90)} boxes of {pen.pick(_GOODS)} were missing from {_place(pen)}"
    if shape == 3:
        return f"{someone(pen)} asked {someone(pen)} about {topic(pen)} and {topic(pen)}"
    if shape == 4:
        return f"nobody at {_place(pen)} {pen.pick(ADVERBS)} {past(pen.pick(VERBS))} anything"
    if shape == 5:
        return f"{gerund(pen.pick(VERBS))} {pen.pick(_GOODS)} was harder than {topic(pen)}"
    if shape == 6:
        return f"{pen.pick(_TIMES)}, {someone(pen)} left {_place(pen)} with {pen.pick(_GOODS)}"
    return f"the {pen.pick(_TRADES)}s of {pen.pick(PLACES)} {pen.pick(VERBS)} their {topic(pen)}"


def sentence(pen: Pen) -> str:
    text = _event(pen)
    if pen.draw() < 0.45:
        text = f"{text}, {pen.pick(_JOINS)} {_event(pen)}"
    return f"{text[0].upper()}{text[1:]}."


def story(pen: Pen, n_chars: int) -> str:
    def paragraph() -> str:
        return fill(lambda: sentence(pen), int(min(n_chars, 600) * (0.4 + pen.draw() / 2)), " ")

    return fill(paragraph, n_chars, "\n\n")


def mail(pen: Pen, n_chars: int) -> str:
    greeting = f"{pen.pick(('Dear', 'Hello', 'Hi', 'Good morning'))} {pen.pick(PEOPLE)},\n\n"
    closing = f"\n\n{pen.pick(('Best regards', 'Thanks', 'Yours', 'Until then'))},\n"
    closing += pen.pick(PEOPLE)
    return greeting + story(pen, n_chars - len(greeting) - len(closing)) + closing


def notes(pen: Pen, n_chars: int) -> str:
    """Minutes of a meeting."""

    def item() -> str:
        hour = f"{pen.number(8, 18)}:{pen.number(0, 59):02d}"
        return f"{hour} {pen.pick(PEOPLE)}: {sentence(pen)} -> {pen.pick(VERBS)} {topic(pen)}"

    return fill(item, n_chars, "\n")


def recipe(pen: Pen, n_chars: int) -> str:
    def step() -> str:
        return (
            f"{pen.pick(VERBS).capitalize()} {pen.number(2, 900)} g {pen.pick(_GOODS)} with the "
            f"{pen.pick(ADJECTIVES)} {pen.pick(_GOODS)} for {pen.number(2, 55)} minutes."
        )

    return fill(step, n_chars, "\n")


def table(pen: Pen, n_chars: int) -> str:
    """Figures with notes, separated by semicolons."""
    names = ["place", "remark", "subject", *(topic(pen) for _ in range(pen.number(1, 2)))]

    def row() -> str:
        figures = [str(round(pen.lognormal(40.0, 1.5))) for _ in names[3:]]
        place = f"{pen.pick(PLACES)} {pen.pick(_PLACES_NEAR)}"
        remark = f"{pen.pick(_FEELINGS)} {pen.pick(_TRADES)}"
        return "; ".join([place, remark, topic(pen), *figures])

    return "; ".join(names) + "\n" + fill(row, n_chars - 40, "\n")


def word_problem(pen: Pen) -> str:
    """A task in arithmetic; it has an answer, not always a nice one."""
    who, other, goods = pen.pick(PEOPLE), pen.pick(PEOPLE), pen.pick(_GOODS)
    a, b, c = pen.number(3, 400), pen.number(2, 60), pen.number(2, 19)
    where = _place(pen)
    shape = int(pen.draw() * 6)
    if shape == 0:
        return (
            f"{who} buys {a} {goods} at {b} cents each and sells a {pen.pick(_FRACTIONS)} of them "
            f"to {other} for {b + c} cents each. How much is earned or lost so far?"
        )
    if shape == 1:
        return (
            f"A cart leaves {where} at {c}:{b % 60:02d} with {a} {goods} and takes {b} minutes per "
            f"trip. When does {who} come back from trip number {c}?"
        )
    if shape == 2:
        return (
            f"{who} and {other} share {a * c} {goods} in the ratio {b}:{c}. {who} gives away a "
            f"{pen.pick(_FRACTIONS)}. How many has each of them now?"
        )
    if shape == 3:
        return (
            f"In a box are {a} {pen.pick(ADJECTIVES)} and {b} {pen.pick(ADJECTIVES)} {goods}. "
            f"{who} takes {c % 4 + 2} without looking. How likely are they all of one kind?"
        )
    if shape == 4:
        return (
            f"{who} saves {a} coins a month at {c / 4:.2f} % interest per year; {other} has "
            f"{a * b} coins at once and earns half as much. After how many years is {who} ahead?"
        )
    return (
        f"A {pen.pick(_TRADES)} needs {c} days for {_place(pen)}, {who} needs {c + b}. Together "
        f"they start on a Monday with {goods} for {a} hours. On which day are they done?"
    )


def errand(pen: Pen) -> str:
    """Something to plan."""
    return (
        f"{gerund(pen.pick(VERBS))} {plural(pen.pick(_TRADES))} for a {pen.pick(_PLACES_NEAR)} in "
        f"{pen.pick(PLACES)} with {pen.number(2, 60)} people, a {pen.pick(_TRADES)} who "
        f"{third(pen.pick(VERBS))} {pen.pick(_GOODS)} and {pen.number(90, 9000)} coins"
    )


_FRACTIONS = ("third", "quarter", "fifth", "sixth", "tenth")
