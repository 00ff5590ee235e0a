"""English words of the list with ordinary meanings in medicine, law or everyday life. They do not
indicate an offensive text, and count only if configured.
"""

from __future__ import annotations

ORDINARY = (
    # medicine and the body
    "anal", "anus", "butt", "clitoris", "ejaculation", "fecal", "genitals", "intercourse",
    "nipple", "nipples", "nymphomania", "orgasm", "penis", "rectum", "semen", "sex", "vagina",
    "vulva",
    # crime, history and people
    "bestiality", "date rape", "domination", "eunuch", "how to kill", "how to murder", "incest",
    "neonazi", "paedophile", "pedophile", "pornography", "rape", "raping", "rapist", "sadism",
    "santorum", "sodomy", "swastika", "white power", "zoophilia",
    # everyday life
    "alaskan pipeline", "bareback", "barely legal", "barenaked", "bastinado", "big black",
    "bondage", "bs", "camel toe", "coon", "coons", "cornhole", "deep throat", "dingleberry",
    "dingleberries", "ecchi", "erotic", "escort", "fingering", "girl on", "grope", "hard core",
    "hardcore", "hoe", "hooker", "hot chick", "huge fat", "jelly donut", "kinky", "lolita",
    "mf", "missionary position", "mr hands", "nude", "nudity", "octopussy", "panties", "panty",
    "pegging", "playboy", "poof", "rimming", "scat", "sexy", "shrimping", "simp", "skeet",
    "snatch", "snowballing", "spunk", "strap on", "strip club", "suck", "sucks", "swinger",
    "tainted love", "taste my", "tied up", "tight white", "tongue in a", "topless", "twinkie",
    "undressing", "vibrator", "violet wand", "voyeur", "wet dream", "wrapping men", "xx",
)  # fmt: skip
