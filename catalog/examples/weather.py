"""An example tool that asks a public API over the only way out: the weather at a place, by name or by coordinates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from django.conf import settings
from pydantic import Field

from catalog.examples.results import Facts, with_sentence
from catalog.functions import result_schema, tool
from catalog.functions.content import Structured, ToolError
from catalog.runners import networks
from toolhub import egress
from toolhub.parts import parts

TIMEOUT_SECONDS = 10.0
MAX_BYTES = 100_000
_DEGREES = {"celsius": "°C", "fahrenheit": "°F"}


@dataclass(slots=True)
class Weather(Facts):
    place: str
    """The name of the place."""
    latitude: float
    """In degrees."""
    longitude: float
    """In degrees."""
    time: str
    """Local time there, in ISO 8601."""
    temperature: float
    """The temperature, in temperature_unit."""
    temperature_unit: str
    """celsius or fahrenheit."""
    wind_speed: float
    """In km/h."""
    precipitation: float
    """In mm."""


@tool(
    title="Get the current weather",
    read_only=True,
    idempotent=True,
    open_world=True,
    timeout=25,
    output_schema=result_schema(Weather),
)
async def get_weather(
    location: Annotated[
        str,
        Field(description="Name of a place, as in New York or Bern, Switzerland. Or give coordinates.", max_length=200),
    ] = "",
    latitude: Annotated[
        float | None, Field(description="Degrees north; negative is south, as in 46.95 for Bern.", ge=-90, le=90)
    ] = None,
    longitude: Annotated[
        float | None, Field(description="Degrees east; negative is west, as in 7.45 for Bern.", ge=-180, le=180)
    ] = None,
    temperature_unit: Annotated[
        Literal["celsius", "fahrenheit"], Field(description="Unit of the temperature.")
    ] = "celsius",
) -> Structured:
    """Get the current temperature, wind and precipitation at a place, from the public API of Open-Meteo. Use it for
    questions about the weather now. Changes nothing.
    """
    place = location.strip()
    if (latitude is None) != (longitude is None):
        raise ToolError("Give both latitude and longitude, or the name of a place as location.")
    if latitude is None or longitude is None:
        if not place:
            raise ToolError("Give the name of a place as location, or its latitude and longitude.")
        place, latitude, longitude = await _find_place(place)
    query = {
        "latitude": latitude,
        "longitude": longitude,
        "temperature_unit": temperature_unit,
        "current": "temperature_2m,wind_speed_10m,precipitation",
        "timezone": "auto",
    }
    now: Any = (await _ask(settings.WEATHER_URL, query)).get("current")
    try:
        found = Weather(
            place or f"{latitude:g}, {longitude:g}",
            latitude,
            longitude,
            str(now["time"]),
            float(now["temperature_2m"]),
            temperature_unit,
            float(now["wind_speed_10m"]),
            float(now["precipitation"]),
        )
    except (KeyError, TypeError, ValueError):
        raise ToolError("The weather service sent an answer without the weather. Try again later.") from None
    return with_sentence(
        found,
        f"{found.place}: {found.temperature:g} {_DEGREES[temperature_unit]}, wind {found.wind_speed:g} km/h, "
        f"precipitation {found.precipitation:g} mm ({found.time}, local time).",
    )


async def _find_place(name: str) -> tuple[str, float, float]:
    """Return the full name and the coordinates of the best match. Raises ToolError when there is none."""
    wanted, _, region = name.partition(",")
    found = (await _ask(settings.GEOCODING_URL, {"name": wanted.strip(), "count": 10, "format": "json"})).get("results")
    places = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    described = [(_describe(one), one) for one in places]
    matching = [pair for pair in described if region.strip().casefold() in pair[0].casefold()]
    if not matching:
        raise ToolError(
            f"No place is called {name!r}. Check the spelling, name a larger place nearby, or give coordinates."
        )
    text, best = matching[0]
    try:
        return text, float(best["latitude"]), float(best["longitude"])
    except (KeyError, TypeError, ValueError):
        raise ToolError("The place service sent an answer without coordinates. Try again later.") from None


def _describe(place: dict[str, Any]) -> str:
    words = (place.get("name"), place.get("admin1"), place.get("country"))
    return ", ".join(dict.fromkeys(str(word) for word in words if word))


async def _ask(url: str, query: dict[str, Any]) -> dict[str, Any]:
    try:
        reply = await egress.fetch(
            "GET",
            f"{url}?{urlencode(query)}",
            timeout=TIMEOUT_SECONDS,
            max_bytes=MAX_BYTES,
            resolver=networks.resolver(),
            allowed=networks.allowed(),
            pools=parts.find(egress.ConnectionPools),
        )
    except egress.EgressError as error:
        raise ToolError(f"The weather service cannot be reached: {error}. Try again in a minute.") from None
    if reply.status != 200:
        raise ToolError(f"The weather service answered with HTTP status {reply.status}. Try again in a minute.")
    try:
        found = json.loads(reply.text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ToolError("The weather service sent an answer that is not JSON. Try again later.")
    return found
