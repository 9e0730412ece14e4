"""Words that name quantities, comparisons and parts of time in questions about tables."""

from __future__ import annotations

from services.offline.wordlist import word_list, word_set

CONCEPTS: dict[str, frozenset[str]] = {
    "rain": frozenset(["precipitation", "precip", "prcp", "rain", "rainfall"]),
    "temperature": frozenset(["temperature", "temp", "tmax", "tmin", "tavg"]),
    "wind": frozenset(["wind", "windspeed", "gust"]),
    "weight": frozenset(["weight", "mass"]),
    "height": frozenset(["height", "elevation", "altitude"]),
    "length": frozenset(["length", "duration", "distance"]),
    "price": frozenset(["price", "cost", "fare"]),
    "speed": frozenset(["speed", "velocity"]),
    "power": frozenset(["horsepower", "power", "hp"]),
    "fuel": frozenset(["mpg", "gallon"]),
    "north": frozenset(["latitude", "lat"]),
    "east": frozenset(["longitude", "lon", "lng"]),
    "population": frozenset(["population", "inhabitants"]),
    "income": frozenset(["income", "gdp", "wealth"]),
}
"""Quantities by the words that name them, in a column's name or in a question."""

ADJECTIVES: dict[str, tuple[str, str, str]] = {
    "wettest": ("rain", "max", "sum"),
    "rainiest": ("rain", "max", "sum"),
    "driest": ("rain", "min", "sum"),
    "hottest": ("temperature", "max", ""),
    "warmest": ("temperature", "max", ""),
    "coldest": ("temperature", "min", ""),
    "coolest": ("temperature", "min", ""),
    "windiest": ("wind", "max", ""),
    "calmest": ("wind", "min", ""),
    "heaviest": ("weight", "max", ""),
    "lightest": ("weight", "min", ""),
    "tallest": ("height", "max", ""),
    "longest": ("length", "max", ""),
    "shortest": ("length", "min", ""),
    "cheapest": ("price", "min", ""),
    "dearest": ("price", "max", ""),
    "fastest": ("speed", "max", ""),
    "slowest": ("speed", "min", ""),
    "strongest": ("power", "max", ""),
    "weakest": ("power", "min", ""),
    "northernmost": ("north", "max", ""),
    "southernmost": ("north", "min", ""),
    "easternmost": ("east", "max", ""),
    "westernmost": ("east", "min", ""),
    "richest": ("income", "max", ""),
    "poorest": ("income", "min", ""),
}
"""Superlatives that imply a quantity: (concept, direction, aggregate or an empty text)."""

LARGEST = word_set("most highest greatest largest biggest maximum max top peak")
SMALLEST = frozenset(["least", "lowest", "fewest", "smallest", "minimum", "min"])

AGGREGATES: dict[str, str] = {
    "average": "mean",
    "mean": "mean",
    "typical": "mean",
    "total": "sum",
    "sum": "sum",
    "altogether": "sum",
    "cumulative": "sum",
    "median": "median",
    "maximum": "max",
    "max": "max",
    "highest": "max",
    "greatest": "max",
    "largest": "max",
    "biggest": "max",
    "peak": "max",
    "minimum": "min",
    "min": "min",
    "lowest": "min",
    "smallest": "min",
}

ADDITIVE = word_set(
    """precipitation precip prcp rain rainfall snow snowfall sales revenue amount count quantity units orders visits
    deaths births cases hours cost spending income profit votes"""
)
"""Column words whose values add up over a group; other columns are averaged."""

UNITS: dict[str, str] = {
    "mm": "rain",
    "millimetre": "rain",
    "millimeter": "rain",
    "cm": "rain",
    "inch": "rain",
    "inche": "rain",
    "degree": "temperature",
    "°c": "temperature",
    "°f": "temperature",
    "°": "temperature",
    "c": "temperature",
    "f": "temperature",
    "celsius": "temperature",
    "fahrenheit": "temperature",
    "mph": "speed",
    "km/h": "speed",
    "m/s": "speed",
    "knot": "speed",
    "lbs": "weight",
    "lb": "weight",
    "pound": "weight",
    "kg": "weight",
    "hp": "power",
    "mpg": "fuel",
}
"""Units, in the singular, with the concept that they measure; speeds measure wind where there is no speed."""

PARTS: dict[str, str] = {
    "year": "year",
    "month": "month",
    "week": "week",
    "weekday": "weekday",
    "day": "day",
    "date": "day",
    "quarter": "quarter",
    "decade": "decade",
}
"""Parts of time that a question may group by, in the singular."""

ROW_NOUNS = word_set("row record entry line item observation case result occasion time")
"""Words that stand for the rows of any table."""

MONTHS = word_list("january february march april may june july august september october november december")
WEEKDAYS = word_list("monday tuesday wednesday thursday friday saturday sunday")

COMPARATORS: dict[str, str] = {
    "more than": ">",
    "greater than": ">",
    "higher than": ">",
    "larger than": ">",
    "bigger than": ">",
    "heavier than": ">",
    "longer than": ">",
    "warmer than": ">",
    "hotter than": ">",
    "exceeding": ">",
    "exceeded": ">",
    "exceeds": ">",
    "exceed": ">",
    "above": ">",
    "over": ">",
    "at least": ">=",
    "no less than": ">=",
    "not less than": ">=",
    "less than": "<",
    "fewer than": "<",
    "lower than": "<",
    "smaller than": "<",
    "lighter than": "<",
    "shorter than": "<",
    "colder than": "<",
    "cooler than": "<",
    "below": "<",
    "under": "<",
    "at most": "<=",
    "no more than": "<=",
    "not more than": "<=",
    "up to": "<=",
    "exactly": "==",
    "equal to": "==",
    ">=": ">=",
    "<=": "<=",
    ">": ">",
    "<": "<",
    "=": "==",
}

US_STATES: dict[str, str] = dict(
    pair.split(":", 1)
    for pair in word_list(
        """alabama:AL alaska:AK arizona:AZ arkansas:AR california:CA colorado:CO connecticut:CT delaware:DE florida:FL
    georgia:GA hawaii:HI idaho:ID illinois:IL indiana:IN iowa:IA kansas:KS kentucky:KY louisiana:LA maine:ME
    maryland:MD massachusetts:MA michigan:MI minnesota:MN mississippi:MS missouri:MO montana:MT nebraska:NE
    nevada:NV new-hampshire:NH new-jersey:NJ new-mexico:NM new-york:NY north-carolina:NC north-dakota:ND ohio:OH
    oklahoma:OK oregon:OR pennsylvania:PA rhode-island:RI south-carolina:SC south-dakota:SD tennessee:TN texas:TX
    utah:UT vermont:VT virginia:VA washington:WA west-virginia:WV wisconsin:WI wyoming:WY"""
    )
)
"""Postal codes by state name, words joined by a hyphen: tables often hold the code where people say the name."""
