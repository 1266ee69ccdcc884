/**
 * How many insertions, deletions and substitutions of one character (code point) turn one text into the other.
 *
 * Source: Levenshtein 1966. The table is worked off in bands of 32 rows, whose cells are kept as the bits of two
 * numbers, after Myers 1999, as simplified by Hyyrö 2003.
 */
export function editDistance(a: string, b: string): number {
  const [rows, columns] = withoutCommonEnds(codePoints(a), codePoints(b));
  if (rows.length === 0 || columns.length === 0) return rows.length + columns.length;
  const numbers = new Map<number, number>();
  const numbered = (code: number) => {
    if (!numbers.has(code)) numbers.set(code, numbers.size);
    return numbers.get(code) as number;
  };
  const across = Uint32Array.from(columns, numbered);
  const down = Uint32Array.from(rows, numbered);
  const places = new Int32Array(numbers.size);
  // How much each cell of the last row done is more than the cell to its left: 1, 0 or -1.
  const steps = new Int8Array(across.length).fill(1);
  for (let top = 0; top < down.length; top += 32) {
    const band = down.subarray(top, top + 32);
    band.forEach((number, row) => places[number] |= 1 << row);
    advance(steps, across, places, band.length - 1);
    band.forEach((number) => places[number] = 0);
  }
  return steps.reduce((sum, step) => sum + step, down.length);
}

/** 1 - distance / length of the longer; 1 for two empty texts. */
export function similarity(a: string, b: string): number {
  const longer = Math.max(codePoints(a).length, codePoints(b).length);
  return longer === 0 ? 1 : 1 - editDistance(a, b) / longer;
}

/** Takes `steps` from the row above a band to the band's last row. */
function advance(steps: Int8Array, across: Uint32Array, places: Int32Array, last: number): void {
  // Where a cell of the column is one more, or one less, than the cell above it.
  let more = -1;
  let less = 0;
  for (let column = 0; column < across.length; column++) {
    const above = steps[column];
    const equal = places[across[column]];
    const reached = above < 0 ? equal | 1 : equal;
    const diagonal = (((reached & more) + more) ^ more) | reached;
    const risen = less | ~(diagonal | more);
    const fallen = diagonal & more;
    steps[column] = ((risen >>> last) & 1) - ((fallen >>> last) & 1);
    const up = (risen << 1) | (above > 0 ? 1 : 0);
    const low = (fallen << 1) | (above < 0 ? 1 : 0);
    more = low | ~(equal | less | up);
    less = up & (equal | less);
  }
}

/** Without what both begin and end with, which costs no edit. */
function withoutCommonEnds(a: number[], b: number[]): [number[], number[]] {
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && a[start] === b[start]) start++;
  let end = 0;
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  return [a.slice(start, a.length - end), b.slice(start, b.length - end)];
}

function codePoints(text: string): number[] {
  return Array.from(text, (character) => character.codePointAt(0) as number);
}
