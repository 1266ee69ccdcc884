const RESULTS = { 3: 7919, 4: 7927.5, 5: [1, { a: "x" }], 6: "a needle that is hidden", 8: { a: { b: 4711 }, c: 815 }, 9: 11, 11: new Set(["k"]), 12: [3, 4] };
function f(n) {
  if (n < 0) throw new RangeError("it is negative");
  return RESULTS[n];
}
async function g(n) { return f(n); }
