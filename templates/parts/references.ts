/** Each of a list without nulls; but a list is one reference where the output is a list too, or nothing is in it. */
export function references(wanted: unknown, found: unknown): unknown[] {
  const several = Array.isArray(wanted) ? wanted.filter((one) => one !== null) : [];
  return several.length > 0 && !Array.isArray(found) ? several : [wanted];
}
