// promptfoo's own `assertions.runAssertion`; its lines are those of the other oracles.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [modules, script, entry, file, given] = process.argv.slice(2);
process.env.PROMPTFOO_DISABLE_TELEMETRY = '1';
process.env.PROMPTFOO_DISABLE_UPDATE = '1';
process.env.PROMPTFOO_DISABLE_REMOTE_GENERATION = 'true';
process.env.PROMPTFOO_CONFIG_DIR = fs.mkdtempSync('/tmp/promptfoo-');
process.env.LOG_LEVEL = 'none';
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr); // what promptfoo logs
const found = createRequire(path.join(modules, 'package.json')).resolve('promptfoo');
const promptfoo = (await import(pathToFileURL(found).href)).default;
const { runAssertion } = promptfoo.assertions;

const rows = fs.readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
const python = script.endsWith('.py');
const config = JSON.parse(given);
const named = entry === 'get_assert' || entry === 'default' ? '' : `:${entry}`;
const value = entry === '<inline>' ? fs.readFileSync(script, 'utf8').trimEnd() : `file://${script}${named}`;

for (const row of rows) {
  const vars = { ...(row.metadata ?? {}) };
  if (row.input !== null && typeof row.input === 'object' && !Array.isArray(row.input)) Object.assign(vars, row.input);
  else vars.input = row.input;
  vars.reference = row.reference;
  vars.expected ??= row.reference;
  const assertion = { type: python ? 'python' : 'javascript', value };
  if (Object.keys(config).length) assertion.config = config;
  let said;
  try {
    const graded = await runAssertion({
      prompt: typeof row.input === 'string' ? row.input : undefined,
      assertion,
      test: { vars, metadata: row.metadata },
      vars,
      providerResponse: { output: row.output },
    });
    said = line(graded);
  } catch (error) {
    said = { outcome: 'failed', outputs: {}, why: String(error?.message ?? error).slice(0, 500) };
  }
  write(JSON.stringify(said) + '\n');
}
fs.rmSync(process.env.PROMPTFOO_CONFIG_DIR, { recursive: true, force: true });
process.exit(0);

function line(graded) {
  // Some reasons end with the assertion itself: a path, or code that is filled.
  const reason = (graded.reason ?? '').replace(/^((?:Custom function|Python code) returned false)\n[^]*/, '$1');
  const own = [graded.pass ? 'pass' : 'fail', graded.score, reason || null];
  if (!Number.isFinite(graded.score)) return { outcome: 'failed', outputs: {}, why: 'a score that is not finite' };
  const others = Object.entries(graded.namedScores ?? {});
  const outputs = { [others.length ? 'overall' : '']: own };
  for (const [name, score] of others) outputs[name] = [null, score, null];
  if (/^(Error running Python script|Python code execution failed|Custom function threw error)/.test(graded.reason ?? ''))
    return { outcome: 'failed', outputs: {}, why: graded.reason.slice(0, 500) };
  return { outcome: 'scored', outputs };
}
