"""The arithmetic coder with whole numbers of any size and exact fractions, bit after bit."""

from fractions import Fraction

BEFORE = Fraction(2, 5)


def code(symbols, n_bits, width, neighbours):
    """Bytes of the symbols (P, W), blocks standing in rows of ``width``."""
    seen, out, low, high = {}, bytearray(), 0, 2**32 - 1
    for p, block in enumerate(symbols):
        for w, symbol in enumerate(block):
            told = [None, None]
            if neighbours and p % width > 0:
                told[0] = symbols[p - 1][w]
            if neighbours and p >= width:
                told[1] = symbols[p - width][w]
            for b in reversed(range(n_bits[w])):
                begins = symbol >> (b + 1)
                says = [
                    None if other is None or other >> (b + 1) != begins else other >> b & 1
                    for other in told
                ]
                counts = seen.setdefault((w, b, begins, *says), [BEFORE, BEFORE])
                share = int(2**16 * counts[1] / sum(counts))
                middle = low + ((high - low) * min(max(share, 1), 2**16 - 1) >> 16)
                bit = symbol >> b & 1
                low, high = (low, middle) if bit else (middle + 1, high)
                counts[bit] += 1
                while low >> 24 == high >> 24:
                    out.append(high >> 24)
                    low, high = (low << 8) % 2**32, (high << 8) % 2**32 + 255
    return bytes([*out, (low >> 24) + 1])
