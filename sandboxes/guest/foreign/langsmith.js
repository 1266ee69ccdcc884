// @ts-check
/** Calls LangSmith's JavaScript and TypeScript evaluators. It stands behind the script, in the same module. */

/**
 * What takes a row's words. `self` gives what the script exports, `own` the function where it exports none.
 * `read`: by a row's word, the keys that the script reads of it. A value that is no object stands under the only one.
 * @param {string} entry @param {() => any} self @param {() => any} own @param {{ read: Record<string, string[]> }} options
 */
function evalcellPart(entry, self, own, { read }) {
  const { invalid, isObject, short } = evalcellWords();
  const page = entry === "performEval";
  const shapes = `return { ${page ? "" : "key, "}score, comment }`;
  const fields = new Set(
    "key score value metadata comment correction evaluatorInfo feedbackConfig sourceRunId targetRunId extra".split(" "),
  );
  /** @type {any} */
  let ready = null;

  /** @type {Error | null} */
  let refused = null;
  const measured = "child_runs start_time end_time latency events total_cost total_tokens prompt_tokens completion_tokens";

  /** Has what LangSmith measured of a run refuse to be read where no column has it. @param {any} run */
  function withMeasured(run) {
    for (const name of measured.split(" ")) {
      if (name in run) continue;
      const get = () => {
        refused ??= new Error(`a row has no ${name}, which the script reads; give the rows a column \`${name}\``);
        throw refused;
      };
      Object.defineProperty(run, name, { get, enumerable: false });
    }
    return run;
  }

  /** The result, unless what no row has was read meanwhile, and the error caught. @param {any} value */
  function settled(value) {
    if (refused !== null) throw refused;
    return judged(value);
  }

  /** A row's word as an object, with what was mapped into it. @param {any} row @param {string} word @param {string} prefix @param {string} key */
  function partOf(row, word, prefix, key) {
    const value = row[word], keys = read[word] ?? [];
    const mapped = Object.keys(row).filter((name) => name.startsWith(prefix));
    const plain = !isObject(value) && value !== undefined && value !== null;
    if (plain && !mapped.length && keys.length > 1 && !keys.includes(key)) {
      throw new TypeError(`the row's ${word} is no object, and the script reads ${keys} of it; map ${prefix}${keys[0]}`);
    }
    const found = plain ? { [keys.length === 1 ? keys[0] : key]: value } : { ...value };
    for (const name of mapped) found[name.slice(prefix.length)] = row[name];
    return found;
  }

  /** A label, a score or both, as LangSmith's values are. @param {any} value @param {any} comment */
  function plain(value, comment) {
    const explanation = comment ?? null;
    if (typeof value === "boolean") return { label: value ? "True" : "False", score: value ? 1 : 0, explanation };
    if (typeof value === "number") return { score: value, explanation };
    return typeof value === "string" ? { label: value, explanation } : null;
  }

  /** One metric's result. @param {any} one */
  function single(one) {
    const unknown = page ? Object.keys(one).find((name) => !fields.has(name)) : undefined; // the SDK leaves them out
    if (unknown !== undefined) return invalid(`the evaluator returned the unknown key ${short(unknown)}: ${shapes}`);
    const { score, value, comment } = one;
    if (comment !== undefined && comment !== null && typeof comment !== "string") {
      return invalid(`the evaluator returned the comment ${short(comment)}: it must be text`);
    }
    if (score !== undefined && score !== null) {
      if (typeof score !== "number" && typeof score !== "boolean") {
        return invalid(`the evaluator returned the score ${short(score)}: it must be a number or a boolean`);
      }
      const found = plain(score, comment);
      return typeof value === "string" ? { ...found, label: value } : found;
    }
    if (value === undefined || value === null) {
      return { score: null, explanation: comment ?? "the evaluator gave no score" };
    }
    return plain(value, comment) ?? { label: short(value), explanation: comment ?? null };
  }

  /** @param {[string, any][]} pairs */
  function several(pairs) {
    /** @type {any} */
    const outputs = {};
    for (const [name, one] of pairs) {
      if (one.invalid !== undefined) return one;
      outputs[name] = one;
    }
    return pairs.length ? { outputs } : { score: null, explanation: "the evaluator gave no results" };
  }

  /** @param {any} value */
  function judged(value) {
    if (page && (typeof value === "boolean" || typeof value === "number")) return plain(value, null);
    const results = Array.isArray(value) ? value : isObject(value) ? value.results : undefined;
    if (Array.isArray(results)) {
      const wrong = results.find((one) => !isObject(one) || typeof one.key !== "string");
      if (wrong !== undefined) return invalid(`the evaluator's results have ${short(wrong)}: each needs a key`);
      return several(results.map((one) => [one.key, single(one)]));
    }
    if (!isObject(value) || !Object.keys(value).length) {
      return invalid(`the evaluator returned ${short(value)}: ${shapes}`);
    }
    if (!page || "key" in value || "score" in value) {
      if (!["score", "value", "comment", ...(page ? [] : ["key"])].some((name) => name in value)) {
        return invalid(`the evaluator returned ${short(value)}, which has no score and no value: ${shapes}`);
      }
      return single(value);
    }
    return several(
      Object.entries(value).map(([name, one]) => [
        name,
        (isObject(one) ? single(one) : plain(one, null)) ?? invalid(`performEval returned the metric ${short(one)}: ${shapes}`),
      ]),
    );
  }

  return async (/** @type {any} */ row) => {
    if (ready === null) {
      const found = await self();
      ready = found[entry] ?? found.default?.[entry] ?? (await own()) ?? (entry === "default" ? found.default : null);
      if (typeof ready !== "function") throw new ReferenceError(`the script has no function named ${entry}`);
    }
    const inputs = partOf(row, "input", "inputs.", "input");
    const outputs = partOf(row, "output", "outputs.", "output");
    const reference = partOf(row, "reference", "reference_outputs.", "output");
    const metadata = row.metadata ?? {};
    refused = null;
    const run = withMeasured({ ...metadata, inputs, outputs, metadata, extra: { metadata } });
    const example = { ...metadata, inputs, outputs: reference, metadata };
    if (page) return settled(await ready(run, example));
    // As LangSmith's SDK: one object of everything, in which old functions find the run's own fields, and the example.
    const rest = { run, example, inputs, outputs, referenceOutputs: reference, attachments: {} };
    return settled(await ready(withMeasured({ ...run, ...rest }), example));
  };
}
