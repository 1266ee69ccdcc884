const SHAPES = {
  "true": () => true,
  "false": () => false,
  "float": () => 0.25,
  "zero": () => 0,
  "below zero": () => -1,
  "not a number": () => Number.NaN,
  "infinite": () => Infinity,
  "text": () => "true",
  "object": () => ({ pass: true, score: 0.5, reason: "half" }),
  "named": () => ({ pass: false, score: 0.2, reason: "little", namedScores: { a: 1, b: 0.5 } }),
  "snake": () => ({ pass_: true, score: 1, reason: "r" }),
  "without a reason": () => ({ pass: true, score: 1 }),
  "without a score": () => ({ pass: true, reason: "r" }),
  "text as score": () => ({ pass: true, score: "1", reason: "r" }),
  "number as pass": () => ({ pass: 1, score: 1, reason: "r" }),
  "list": () => [true],
  "null": () => null,
  "nothing": () => undefined,
  "awaited": async () => ({ pass: true, score: 1, reason: "later" }),
  "raise": () => { throw new Error("no"); },
};

module.exports = (output, context) => SHAPES[context.vars.input]();
