const SHAPES: Record<string, () => unknown> = {
  "number": () => ({ scores: [{ name: "a", value: 0.5, comment: "half" }] }),
  "several": () => ({ scores: [{ name: "a", value: 1 }, { name: "b", value: "good", dataType: "CATEGORICAL" }] }),
  "true": () => ({ scores: [{ name: "a", value: true, dataType: "BOOLEAN" }] }),
  "text of true": () => ({ scores: [{ name: "a", value: " TRUE ", dataType: "BOOLEAN" }] }),
  "text of one point": () => ({ scores: [{ name: "a", value: "1.0", dataType: "BOOLEAN" }] }),
  "name of every object": () => ({ scores: [{ name: "a", value: "constructor", dataType: "BOOLEAN" }] }),
  "truth without a type": () => ({ scores: [{ name: "a", value: true }] }),
  "number as category": () => ({ scores: [{ name: "a", value: 1, dataType: "CATEGORICAL" }] }),
  "other spelling": () => ({ scores: [{ name: "a", value: "1", data_type: "BOOLEAN" }] }),
  "text": () => ({ scores: [{ name: "a", value: "a text", dataType: "TEXT" }] }),
  "long text": () => ({ scores: [{ name: "a", value: "x".repeat(501), dataType: "TEXT" }] }),
  "object as comment": () => ({ scores: [{ name: "a", value: 1, comment: { b: 1 } }] }),
  "null as type": () => ({ scores: [{ name: "a", value: 1, dataType: null }] }),
  "not a number": () => ({ scores: [{ name: "a", value: Number.NaN }] }),
  "text as metadata": () => ({ scores: [{ name: "a", value: 1, metadata: "b" }] }),
  "no name": () => ({ scores: [{ value: 1 }] }),
  "no scores": () => ({ scores: [] }),
  "a number alone": () => 0.5,
  "nothing": () => undefined,
  "awaited": () => Promise.resolve({ scores: [{ name: "a", value: 0.5 }] }),
  "raise": () => { throw new Error("no"); },
};

function evaluate(ctx: EvaluationContext): EvaluationResult {
  return SHAPES[ctx.observation.input]() as EvaluationResult;
}
