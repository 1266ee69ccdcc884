// @ts-check
/** Calls Langfuse's TypeScript evaluators. It stands behind the script, in the same module. */

/** What Langfuse's worker makes of a score: the executor has the same rules. */
function evalcellRules() {
  const { invalid, isObject, short } = evalcellWords();
  const types = ["NUMERIC", "CATEGORICAL", "BOOLEAN", "TEXT"];
  const truths = new Map([["true", true], ["1", true], ["false", false], ["0", false]]);

  /** @param {any} one @returns {any} */
  function scored(one) {
    const { name, value, comment, dataType: kind, metadata } = one;
    if (kind !== undefined && !types.includes(kind)) {
      return invalid(`the score ${name} has the data type ${short(kind)}: known are ${types.join(", ")}`);
    }
    if (comment !== undefined && comment !== null && typeof comment !== "string") {
      return invalid(`the score ${name} has the comment ${short(comment)}: it must be text`);
    }
    if (metadata !== undefined && !isObject(metadata)) {
      return invalid(`the score ${name} has the metadata ${short(metadata)}: return an object`);
    }
    const text = comment ?? null;
    if (kind === "BOOLEAN") {
      const truth = typeof value === "object" ? undefined : truths.get(String(value).trim().toLowerCase());
      if (truth === undefined) return invalid(`the score ${name} is BOOLEAN, and its value ${short(value)} is neither`);
      return { label: truth ? "True" : "False", score: truth ? 1 : 0, explanation: text };
    }
    if (typeof value === "number" && (kind === "NUMERIC" || !kind)) return { score: value, explanation: text };
    if (kind === "NUMERIC") return invalid(`the score ${name} is NUMERIC, and its value ${short(value)} is no number`);
    if (kind === "TEXT" && typeof value === "string" && (value.length < 1 || value.length > 500)) {
      return invalid(`the score ${name} is TEXT, and has not 1 to 500 characters`);
    }
    if (typeof value === "string") return { label: value, explanation: text };
    return invalid(`the score ${name} has the value ${short(value)}: give it its data type, or a number`);
  }

  return { scored };
}

/**
 * What takes a row's words. `self` gives what the script exports, `own` the function where it exports none.
 * `page`: it was written for Langfuse's page, and not for its SDK.
 * @param {string} entry @param {() => any} self @param {() => any} own @param {{ page: boolean }} how
 */
function evalcellPart(entry, self, own, { page: isPage }) {
  const shapes = isPage ? "return { scores: [{ name, value }] }" : "return { name, value }, or several in an array";
  const { scored } = evalcellRules();
  const { invalid, short } = evalcellWords();
  /** @type {any} */
  let ready = null;

  /** @param {any} row */
  function contextOf(row) {
    const metadata = row.metadata ?? null;
    const calls = metadata?.tool_calls ?? metadata?.toolCalls;
    const toolCalls = Array.isArray(calls) ? calls : [];
    return {
      observation: { input: row.input ?? null, output: row.output ?? null, metadata, toolCalls },
      experiment: "reference" in row ? { itemExpectedOutput: row.reference, itemMetadata: metadata } : undefined,
    };
  }

  /** What Langfuse's SDK gives an evaluator of an experiment. @param {any} row */
  const givenOf = (row) => ({
    input: row.input,
    output: row.output,
    expectedOutput: row.reference,
    metadata: row.metadata,
  });

  /** @param {any} value */
  function judged(value) {
    const scores = isPage ? value?.scores : Array.isArray(value) ? value : [value];
    if (!Array.isArray(scores) || !scores.length) {
      return invalid(`the evaluator returned ${short(value)}, which has no scores: ${shapes}`);
    }
    /** @type {any} */
    const outputs = {};
    for (const one of scores) {
      if (typeof one?.name !== "string" || !one.name) {
        return invalid(`the evaluator returned the score ${short(one)}, which has no name: ${shapes}`);
      }
      const found = scored(one);
      if (found.invalid !== undefined) return found;
      outputs[one.name] = found;
    }
    return { outputs };
  }

  return async (/** @type {any} */ row) => {
    if (ready === null) {
      const found = await self();
      ready = found[entry] ?? found.default?.[entry] ?? own() ?? found.default;
      if (typeof ready !== "function") throw new ReferenceError(`the script has no function named ${entry}`);
    }
    return judged(await ready(isPage ? contextOf(row) : givenOf(row)));
  };
}
