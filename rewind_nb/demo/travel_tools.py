"""What the trip planner can look up, and the one thing that it does to the world.

Days of weather come from the table that the first example uses; sights and rooms from
`data/travel.json`. `reserve_room` books: it is a tool with an effect.
"""

from __future__ import annotations

from typing import Any

from rewind_nb.capture.tools import tool
from rewind_nb.demo.tables import read_json, read_table
from rewind_nb.errors import StepFailure, did_you_mean

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

BOOKINGS: list[dict[str, Any]] = []
"""The hotels' own book, which no recording sees: one entry per reservation that was made."""


def interests() -> list[str]:
    """What there are sights for.

    Example:
        >>> interests()
        ['art', 'history', 'music', 'nature', 'views']
    """
    return sorted({sight["interest"] for sight in read_json("travel")["sights"]})


# The look-ups read files: another run must not be served what an older file said.


@tool(cache=False)
def days_of(month: str) -> list[dict[str, Any]]:
    """Every day of a month on record, over four years.

    Args:
        month: its English name.

    Returns:
        For each day its `date`, the `rain_mm` that fell and the highest temperature, `high_c`.

    Raises:
        StepFailure: there is no such month.

    Example:
        >>> days = days_of("October")
        >>> len(days), days[0]
        (124, {'date': '2012-10-01', 'rain_mm': 0.0, 'high_c': 23.3})
    """
    _require("look_up_days", "month", month, MONTHS)
    number = f"{1 + MONTHS.index(month):02}"
    return [
        {
            "date": row["date"],
            "rain_mm": float(row["precipitation_mm"]),
            "high_c": float(row["temp_max_c"]),
        }
        for row in read_table("seattle_weather")
        if row["date"][5:7] == number
    ]


@tool(cache=False)
def find_sights(wanted: list[str], indoors: bool) -> list[dict[str, str]]:
    """The sights for some interests, under a roof or in the open, in the order of the interests.

    Raises:
        StepFailure: an interest that there is nothing for.

    Example:
        >>> [sight["name"] for sight in find_sights(["music", "art"], indoors=False)]
        ['Jimi Hendrix Park', 'Olympic Sculpture Park', 'Fremont Troll']
    """
    sights = read_json("travel")["sights"]
    for interest in wanted:
        _require("read_request", "interest", interest, interests())
    return [
        {"name": sight["name"], "area": sight["area"]}
        for interest in wanted
        for sight in sights
        if (sight["interest"], sight["indoors"]) == (interest, indoors)
    ]


@tool(cache=False)
def find_rooms(guests: int, budget: int) -> list[dict[str, Any]]:
    """The rooms that are large enough and within a budget of dollars a night.

    Raises:
        StepFailure: there is none.

    Example:
        >>> [room["hotel"] for room in find_rooms(guests=3, budget=180)]
        ['Ballard Boathouse']
    """
    rooms = read_json("travel")["rooms"]
    fitting = [room for room in rooms if room["sleeps"] >= guests and room["rate"] <= budget]
    if not fitting:
        message = f"no room sleeps {guests} for {budget} dollars a night or less. Raise the budget."
        raise StepFailure("draw_offer", message, raw=f"{guests} guests, {budget} dollars")
    return [{key: room[key] for key in ("hotel", "area", "rate")} for room in fitting]


@tool(effect=True)
def reserve_room(hotel: str, guests: int, nights: int, price: float) -> dict[str, Any]:
    """Reserve a room: an entry in the hotels' book that somebody will be asked to pay.

    Args:
        price: dollars a night.

    Returns:
        The `code` of the reservation, and the `total` in dollars.

    Example:
        >>> reserve_room("Pine Street Inn", guests=2, nights=3, price=100.0)["total"]
        300.0
    """
    code = f"{hotel.rpartition(' ')[2][:3].upper()}-{len(BOOKINGS) + 1:03}"
    total = round(nights * price, 2)
    BOOKINGS.append({"code": code, "hotel": hotel, "guests": guests, "total": total})
    return {"code": code, "total": total}


def _require(step: str, what: str, name: str, known: Any) -> None:
    if name not in known:
        message = f"the {what} {name!r} is none that is known. {did_you_mean(name, known)}"
        raise StepFailure(step, message, raw=str(name))
