// @ts-check
/** Calls promptfoo's JavaScript assertions. It stands behind the script, in the same module. */

/**
 * What takes a row's words. `self` gives what the script exports, `own` the function where it exports none; for code of
 * a config it is that.
 * @param {string} entry @param {(() => any) | null} self @param {any} own
 */
function evalcellPart(entry, self, own) {
  const { invalid, isObject, short } = evalcellWords();
  const shapes = "return a boolean, a finite number, or an object with pass, score and reason";
  const words = new Set(["output", "reference", "input", "metadata"]);
  /** @type {any} */
  let ready = null;

  /** The object that a value is, or is the JSON of: in CSV, objects are texts. @param {any} value */
  function objectOf(value) {
    if (isObject(value)) return value;
    if (typeof value !== "string" || !value.trimStart().startsWith("{")) return null;
    try {
      return JSON.parse(value);
    } catch {
      return null;
    }
  }

  /** A row as promptfoo's context. @param {any} row */
  function contextOf(row) {
    const metadata = row.metadata ?? {};
    const vars = { ...metadata };
    const given = row.input;
    if (isObject(given)) Object.assign(vars, given);
    else if ("input" in row) vars.input = given;
    if ("reference" in row) {
      vars.reference = row.reference;
      if (!("expected" in vars)) vars.expected = row.reference;
    }
    /** @type {any} */
    const config = {};
    for (const name of Object.keys(row)) {
      if (!words.has(name) && !/^(vars|providerResponse|context)\./.test(name)) config[name] = row[name];
    }
    /** What was given as a part of the context, or the column that has its name. @param {string[]} names */
    const part = (...names) => {
      const values = names.map((name) => config[name] ?? metadata[name]);
      for (const name of names) delete config[name];
      return values.find((value) => value !== undefined && value !== null);
    };
    const test = objectOf(part("test"));
    for (const each of [objectOf(metadata.vars), objectOf(test?.vars)]) Object.assign(vars, each ?? {});
    /** @type {any} */
    const beside = {};
    for (const name of Object.keys(row)) {
      if (name.startsWith("vars.")) vars[name.slice(5)] = row[name];
      if (name.startsWith("context.")) beside[name.slice(8)] = row[name];
    }
    const bound = config.providerResponse;
    const response = part("providerResponse", "provider_response");
    const responded = { output: row.output, ...objectOf(response) };
    if (bound !== undefined && bound !== null && objectOf(bound) === null) {
      throw new TypeError(`the row's providerResponse is ${short(bound)}, and promptfoo's is an object`);
    }
    const prompt = vars.prompt?.raw ?? vars.prompt ?? given;
    const logProbs = part("logProbs", "log_probs") ?? responded.logProbs;
    const trace = part("trace");
    /** @type {any} */
    const context = {
      ...beside,
      prompt: typeof prompt === "string" ? prompt : vars.prompt && typeof prompt === "object" ? JSON.stringify(prompt) : undefined,
      vars,
      test: { metadata, ...test, vars },
      logProbs,
      provider: part("provider"),
      providerResponse: responded,
    };
    if (trace !== undefined) context.trace = objectOf(trace) ?? trace;
    const configured = objectOf(metadata.config);
    if (configured !== null) context.config = { ...configured, ...config };
    else if (Object.keys(config).length) context.config = config;
    if (isObject(responded.metadata)) context.metadata = responded.metadata;
    else if (Object.keys(metadata).length) context.metadata = metadata;
    return context;
  }

  /** What promptfoo makes of a returned value. @param {any} value */
  function judged(value) {
    if (typeof value === "boolean") {
      const text = value ? "Assertion passed" : "Custom function returned false";
      return { label: value ? "pass" : "fail", score: value ? 1 : 0, explanation: text };
    }
    if (typeof value === "number" && Number.isFinite(value)) {
      const passed = value > 0;
      const text = passed ? "Assertion passed" : "Custom function returned false";
      return { label: passed ? "pass" : "fail", score: value, explanation: text };
    }
    if (!isObject(value)) {
      return invalid(`the assertion returned ${short(value)}: ${shapes}`);
    }
    const { pass, score, reason, namedScores, componentResults } = value;
    if (typeof pass !== "boolean") return invalid(`the assertion returned the pass ${short(pass)}: ${shapes}`);
    if (typeof score !== "number" || !Number.isFinite(score)) {
      return invalid(`the assertion returned the score ${short(score)}: ${shapes}`);
    }
    if (typeof reason !== "string") return invalid(`the assertion returned the reason ${short(reason)}: ${shapes}`);
    let text = reason;
    for (const part of Array.isArray(componentResults) ? componentResults : []) {
      text += `\n${part?.pass ? "pass" : "fail"} ${part?.score}: ${part?.reason}`;
    }
    const found = { label: pass ? "pass" : "fail", score, explanation: text };
    if (namedScores === undefined || namedScores === null || !Object.keys(namedScores).length) return found;
    /** @type {any} */
    const outputs = { overall: found };
    for (const name of Object.keys(namedScores)) {
      // The assertion's own score is `overall`, whatever its named scores are.
      outputs[name === "overall" ? "namedScores.overall" : name] = { score: namedScores[name] };
    }
    return { outputs };
  }

  /** The function that the entry names. @param {any} found */
  function named(found) {
    const base = found.default?.default ?? found.default ?? found;
    if (entry !== "default") return base?.[entry] ?? found[entry];
    return typeof base === "function" ? base : base?.default;
  }

  /** The last semicolon of the text that ends a statement. @param {string} text */
  function lastSemicolon(text) {
    let quote = "", deep = 0, found = -1;
    for (let at = 0; at < text.length; at++) {
      const letter = text[at];
      if (quote) {
        if (letter === "\\") at++;
        else if (letter === quote) quote = "";
      } else if (letter === "'" || letter === '"' || letter === "`") quote = letter;
      else if ("([{".includes(letter)) deep++;
      else if (")]}".includes(letter)) deep--;
      else if (letter === ";" && deep === 0) found = at;
    }
    return found;
  }

  /** The body of a function for code of a config. @param {string} text */
  function bodyOf(text) {
    if (text.includes("\n")) return text;
    const line = text.trim().replace(/;+\s*$/, "");
    if (!/^(const|let|var)\s/.test(line)) return `return ${line}`;
    const at = lastSemicolon(line);
    const last = line.slice(at + 1).trim();
    return at < 0 || !last ? line : `${line.slice(0, at + 1)} return ${last}`;
  }

  /** @param {string} text */
  const compiled = (text) => evalcellCompiled("output, context, process", bodyOf(text.trimEnd()));

  return async (/** @type {any} */ row) => {
    const context = contextOf(row);
    if (self === null) {
      const filled = /\{\{|\{#/.test(own) ? evalcellRender(own, context.vars) : null;
      ready ??= filled === null ? await compiled(own) : null;
      const called = ready ?? (await compiled(/** @type {string} */ (filled)));
      return judged(await called(row.output, context, undefined));
    }
    ready ??= named(await self()) ?? own();
    if (typeof ready !== "function") throw new ReferenceError(`the script exports no function named ${entry}`);
    return judged(await ready(row.output, context));
  };
}

/** The template with its names and filters filled, as nunjucks writes them. @param {string} template @param {any} vars */
function evalcellRender(template, vars) {
  /** @type {Record<string, (value: any, ...given: any[]) => any>} */
  const filters = {
    upper: (value) => write(value).toUpperCase(),
    lower: (value) => write(value).toLowerCase(),
    trim: (value) => write(value).trim(),
    capitalize: (value) => write(value).charAt(0).toUpperCase() + write(value).slice(1).toLowerCase(),
    length: (value) => value?.length ?? (value ? Object.keys(value).length : 0),
    first: (value) => value?.[0],
    last: (value) => value?.[value.length - 1],
    join: (value, mark = "") => (value ?? []).join(mark),
    replace: (value, old, other) => write(value).replaceAll(write(old), write(other)),
    default: (value, other = "", falsy = false) => (value === undefined || (falsy && !value) ? other : value),
    d: (value, other = "") => value ?? other,
    dump: (value, indent) => JSON.stringify(value, undefined, indent),
    tojson: (value) => JSON.stringify(value),
    safe: (value) => value,
    string: (value) => write(value),
    abs: (value) => Math.abs(value),
    round: (value, places = 0) => Math.round(value * 10 ** places) / 10 ** places,
    int: (value, other = 0) => (Number.isNaN(parseInt(value)) ? other : parseInt(value)),
    float: (value, other = 0) => (Number.isNaN(parseFloat(value)) ? other : parseFloat(value)),
  };

  /** @param {any} value @returns {string} */
  const write = (value) => (value === undefined || value === null ? "" : String(value));

  /** The parts between the marks that stand in no quotes and no brackets. @param {string} text @param {string} mark */
  function split(text, mark) {
    const parts = [""];
    let quote = "", deep = 0;
    for (const letter of text) {
      if (quote) quote = letter === quote ? "" : quote;
      else if (letter === "'" || letter === '"') quote = letter;
      else if ("([".includes(letter)) deep++;
      else if (")]".includes(letter)) deep--;
      if (letter === mark && !quote && !deep) parts.push("");
      else parts[parts.length - 1] += letter;
    }
    return parts;
  }

  /** @param {string} text @returns {any} */
  function operand(text) {
    if (/^'[^']*'$|^"[^"]*"$/.test(text)) return text.slice(1, -1);
    if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
    if (text === "true" || text === "false") return text === "true";
    if (text === "none" || text === "null") return null;
    if (!/^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*|\[\s*(\d+|'[^']*'|"[^"]*")\s*\])*$/.test(text)) {
      throw new Error(`the template has ${text}, which is neither a name nor a value`);
    }
    let value = vars;
    for (const part of text.match(/[A-Za-z_$][\w$]*|\d+|'[^']*'|"[^"]*"/g) ?? []) {
      value = value?.[/^['"]/.test(part) ? part.slice(1, -1) : part];
    }
    return value;
  }

  return template.replace(/\{\{-?([\s\S]*?)-?\}\}|\{#[\s\S]*?#\}/g, (_, expression) => {
    if (expression === undefined) return "";
    const [first, ...rest] = split(expression.trim(), "|");
    let value = operand(first.trim());
    for (const one of rest) {
      const [, name, given] = /^\s*(\w+)\s*(?:\(([\s\S]*)\))?\s*$/.exec(one) ?? [];
      if (name === undefined || !Object.hasOwn(filters, name)) {
        throw new Error(`the template's filter ${one.trim()} is not known`);
      }
      value = filters[name](value, ...(given ? split(given, ",").map((part) => operand(part.trim())) : []));
    }
    return write(value);
  });
}
