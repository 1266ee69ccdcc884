const wanted = String(context.vars.expected);
if (output.includes?.(wanted)) return true;
return { pass: false, score: wanted.length / 100, reason: `without ${typeof output}` };
