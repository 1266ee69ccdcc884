"""Edit distance of two texts, by code points."""


def edit_distance(a: str, b: str) -> int:
    """
    How many insertions, deletions and substitutions of one character turn one text into the other.

    Source: Levenshtein 1966. A column of its table is kept as the bits of two whole numbers, one bit a character, and
    moves on by one character of the other text at a time: Myers 1999, as simplified by Hyyrö 2003.
    """
    a, b = without_common_ends(a, b)
    if len(a) < len(b):
        a, b = b, a
    if not b:
        return len(a)
    places = dict.fromkeys(b, 0)
    for place, character in enumerate(a):
        if character in places:
            places[character] |= 1 << place
    everywhere = (1 << len(a)) - 1
    # Where a cell of the column is one more, or one less, than the cell above it.
    more, less = everywhere, 0
    for character in b:
        equal = places[character]
        diagonal = (((equal & more) + more) ^ more) | equal | less
        risen = ((less | (everywhere & ~(diagonal | more))) << 1 | 1) & everywhere
        fallen = (diagonal & more) << 1 & everywhere
        more = fallen | (everywhere & ~(diagonal | risen))
        less = diagonal & risen
    return len(b) + more.bit_count() - less.bit_count()


def similarity(a: str, b: str) -> float:
    """1 - distance / length of the longer; 1.0 for two empty texts."""
    longer = max(len(a), len(b))
    return 1 - edit_distance(a, b) / longer if longer else 1.0


def without_common_ends(a: str, b: str) -> tuple[str, str]:
    """Without what both begin and end with, which costs no edit."""
    shorter = min(len(a), len(b))
    start = next((at for at in range(shorter) if a[at] != b[at]), shorter)
    end = next((at for at in range(shorter - start) if a[-1 - at] != b[-1 - at]), shorter - start)
    return a[start : len(a) - end], b[start : len(b) - end]
