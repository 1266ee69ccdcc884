// @ts-check
/** Calls Braintrust's JavaScript and TypeScript scorers. It stands behind the script, in the same module. */

/**
 * What takes a row's words. `self` gives what the script exports, `own` the function where it exports none.
 * @param {string} entry @param {() => any} self @param {() => any} own
 */
function evalcellPart(entry, self, own) {
  const { invalid, isObject, short } = evalcellWords();
  const shapes = "return a number from 0 to 1, null, or { name, score }";
  const words = new Set(["output", "reference", "input", "metadata"]);
  /** @type {any} */
  let ready = null;

  /** A score and what is told with it. @param {any} score @param {any} metadata */
  function one(score, metadata) {
    const told = isObject(metadata) && Object.keys(metadata).length ? JSON.stringify(metadata).slice(0, 4000) : null;
    if (score === null || score === undefined) return { score: null, explanation: told ?? "the scorer gave no score" };
    if (typeof score === "boolean") return { score: score ? 1 : 0, explanation: told };
    if (typeof score !== "number") return invalid(`the scorer returned the score ${short(score)}: ${shapes}`);
    if (!(score >= 0 && score <= 1)) return invalid(`the scorer returned the score ${score}, which is not between 0 and 1`);
    return { score, explanation: told };
  }

  /** What Braintrust makes of a returned value. @param {any} value */
  function judged(value) {
    if (Array.isArray(value)) {
      /** @type {any} */
      const outputs = {};
      for (const part of value) {
        if (!isObject(part) || typeof part.name !== "string" || !part.name) {
          return invalid(`the scorer returned ${short(part)} among its scores: each must have a name and a score`);
        }
        const found = one(part.score, part.metadata);
        if (found.invalid !== undefined) return found;
        outputs[part.name] = found;
      }
      return value.length ? { outputs } : { score: null, explanation: "the scorer gave no scores" };
    }
    if (isObject(value)) {
      return "score" in value ? one(value.score, value.metadata) : invalid(`the scorer returned ${short(value)}: ${shapes}`);
    }
    return one(value, null);
  }

  return async (/** @type {any} */ row) => {
    if (ready === null) {
      const found = await self();
      ready = found[entry] ?? found.default?.[entry] ?? own() ?? (entry === "default" ? found.default : null);
      if (typeof ready !== "function") throw new ReferenceError(`the script has no function named ${entry}`);
    }
    const given = { input: row.input, output: row.output, expected: row.reference, metadata: row.metadata ?? {} };
    for (const name of Object.keys(row)) if (!words.has(name)) given[/** @type {"input"} */ (name)] = row[name];
    return judged(await ready(given));
  };
}
