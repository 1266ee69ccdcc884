/**
 * Twice the words that both texts have, by the words of both: 1 for the same words as often, and for two texts without.
 *
 * A word is letters, digits and underscores in a row, whatever their case. This is the F1 of SQuAD (Rajpurkar et al.
 * 2016) over all words, articles too.
 */
export function overlap(a: string, b: string): number {
  const [first, second] = [words(a), words(b)];
  const both = first.length + second.length;
  if (both === 0) return 1;
  const left = new Map<string, number>();
  for (const word of first) left.set(word, (left.get(word) ?? 0) + 1);
  const shared = second.filter((word) => {
    const more = left.get(word) ?? 0;
    if (more > 0) left.set(word, more - 1);
    return more > 0;
  });
  return 2 * shared.length / both;
}

function words(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
}
