type Context = { vars: Record<string, unknown>; config?: { least?: number } };

function words(value: unknown): Set<string> {
  return new Set((typeof value === "string" ? value : JSON.stringify(value)).split(/\s+/));
}

export default function (output: unknown, context: Context) {
  const said = words(output), wanted = words(context.vars.expected);
  const share = [...wanted].filter((word) => said.has(word)).length / wanted.size;
  const pass = share > (context.config?.least ?? 0.3);
  return { pass, score: share, reason: `${typeof output}, ${context.vars.model}`, namedScores: { wanted: wanted.size } };
}
