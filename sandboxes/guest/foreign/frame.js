// @ts-check
/** Stands between the sandbox and the part of a dialect: errors show the script's own lines, and none of ours. */

/**
 * What takes a row's words. `lines` are those of the script, which stands first in the module; from `end` on its files do.
 * @param {(row: any) => any} part @param {number} lines @param {number} end
 */
function evalcellOwnLines(part, lines, end) {
  const isOurs = (/** @type {string} */ frame) => {
    const line = frame.includes(import.meta.url) ? Number(/:(\d+):\d+\)?$/.exec(frame)?.[1]) : 0;
    return line > lines && line < end;
  };
  return async (/** @type {any} */ row) => {
    try {
      return await part(row);
    } catch (error) {
      try {
        const named = /** @type {any} */ (error);
        const frames = named.stack.split("\n").filter((/** @type {string} */ frame) => !isOurs(frame));
        named.stack = frames.join("\n").replaceAll("evaluator.ts, <anonymous>:", "evaluator.ts:");
      } catch {
        // It has no stack, or one that cannot be set.
      }
      throw error;
    }
  };
}

/**
 * A function of these parameters, not strict, as `new Function` makes one; but its first line is the text's first.
 * @param {string} parameters @param {string} body @returns {Promise<(...given: any[]) => any>}
 */
async function evalcellCompiled(parameters, body) {
  const whole = `(function (${parameters}) {${body}\n})`;
  try {
    new Function(parameters, body); // refuses a body that ends the function
    return (0, eval)(`${whole}\n//# sourceURL=evaluator.ts`);
  } catch (error) {
    if (error instanceof SyntaxError) await evalcellPlace(whole, error);
    throw error;
  }
}

/** Adds the place to an error of syntax, which the engine does not tell. @param {string} text @param {SyntaxError} error */
async function evalcellPlace(text, error) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/javascript" }));
  try {
    await import(url);
  } catch (parsed) {
    const place = /:(\d+:\d+)\s*\n/.exec(`${/** @type {any} */ (parsed).message}\n`);
    error.stack = `${error.name}: ${error.message}` + (place ? `\n    at evaluator.ts:${place[1]}` : "");
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** What the parts of all dialects say and ask of values. */
function evalcellWords() {
  const { stringify } = JSON;
  return {
    /** A value, in short, for a message. @param {any} value */
    short(value) {
      let text;
      try {
        text = (typeof value === "object" || typeof value === "string" ? stringify(value) : null) ?? String(value);
      } catch {
        text = typeof value;
      }
      return text.length > 120 ? text.slice(0, 119) + "…" : text;
    },
    /** A result that its own tool refuses. @param {string} message */
    invalid: (message) => ({ invalid: message }),
    /** @param {any} value */
    isObject: (value) => value !== null && typeof value === "object" && !Array.isArray(value),
  };
}
