/** At most 100 characters (code points), with three dots where there were more. */
export function cut(text: string): string {
  const first = [...text.slice(0, 202)];
  return first.length <= 100 ? text : first.slice(0, 100).join("") + "...";
}
