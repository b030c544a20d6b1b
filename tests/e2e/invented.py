"""Texts for tests of corpora."""

import random


def invented_texts(count):
    """Texts of 5 to 150 words that nobody wrote, with marks and line ends between them."""
    draw = random.Random(20240229)
    syllables = ["ba", "den", "fi", "gor", "ha", "lim", "mo", "nu", "per", "ra", "sel", "ti", "vo", "wen", "ya", "zo"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 3))) for _ in range(120)]
    texts = []
    for _ in range(count):
        length = draw.randint(5, 150)
        text = ""
        for _ in range(length):
            text += draw.choice(words) + draw.choice([" ", " ", " ", " ", ", ", ". ", "\n", " 's ", " 12 "])
        texts.append(text.strip().capitalize())
    return texts
