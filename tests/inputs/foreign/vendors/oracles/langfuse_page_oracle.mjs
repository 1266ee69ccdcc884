// Langfuse's own runners of code evaluators, and the schema by which its worker takes their results; from a clone of it.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [modules, clone, script, , file] = process.argv.slice(2);
const { z } = createRequire(path.join(modules, 'package.json'))('zod');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'langfuse-'));
const runners = 'scripts/code-eval-runners';

const source = fs.readFileSync(script, 'utf8');
const python = script.endsWith('.py');
const rows = fs.readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
const events = rows.map((row) => ({
  code: { source },
  payload: {
    observation: { input: row.input, output: row.output, metadata: row.metadata, toolCalls: [] },
    experiment: { itemExpectedOutput: row.reference, itemMetadata: row.metadata },
  },
}));
const Result = schema(z);
for (const answer of await (python ? ofPython() : ofTypeScript())) console.log(JSON.stringify(line(answer)));
fs.rmSync(folder, { recursive: true, force: true });

function text(name) {
  return execFileSync('git', ['-C', clone, '-c', 'safe.directory=*', 'show', `HEAD:${name}`], { encoding: 'utf8' });
}

/** What the worker takes of a result: the schema stands among types that need all of Langfuse. */
function schema(z) {
  const types = text('packages/shared/src/server/evals/codeEvalDispatcherTypes.ts');
  const [, own] = /(const codeEvalScoreBase = [\s\S]*?)\nexport type CodeEvalScore =/.exec(types);
  const scores = text('packages/shared/src/domain/scores.ts');
  const limit = Number(/TEXT_SCORE_MAX_LENGTH = (\d+)/.exec(scores)[1]);
  const kinds = { NUMERIC: 'NUMERIC', CATEGORICAL: 'CATEGORICAL', BOOLEAN: 'BOOLEAN', TEXT: 'TEXT' };
  const plain = own.replace('(v, ctx): 0 | 1 =>', '(v, ctx) =>');
  return new Function('z', 'ScoreDataTypeEnum', 'TEXT_SCORE_MAX_LENGTH', `${plain}\nreturn CodeEvalDispatchResultSchema;`)(
    z, kinds, limit,
  );
}

function ofPython() {
  fs.writeFileSync(path.join(folder, 'runner.py'), text(`${runners}/python/code_based_eval_handler.py`));
  const code =
    'import json, sys, runner\n' +
    'for line in sys.stdin:\n    print(json.dumps(runner.handler(json.loads(line), None)), file=sys.stderr)\n';
  const input = events.map((event) => JSON.stringify(event)).join('\n');
  const answers = path.join(folder, 'answers');
  const out = fs.openSync(answers, 'w');
  execFileSync('python3', ['-c', code], { cwd: folder, input, stdio: ['pipe', 'ignore', out] });
  return fs.readFileSync(answers, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
}

async function ofTypeScript() {
  const runner = path.join(folder, 'runner.mjs');
  fs.writeFileSync(runner, text(`${runners}/node/code-based-eval-handler.mjs`));
  const { handler } = await import(pathToFileURL(runner).href);
  const answers = [];
  for (const event of events) answers.push(JSON.parse(JSON.stringify(await handler(event))));
  return answers;
}

function line(answer) {
  if (answer.error) return { outcome: 'failed', outputs: {}, why: answer.error.message };
  const { data, error } = Result.safeParse(answer);
  if (error) return { outcome: 'failed', outputs: {}, why: error.message.slice(0, 500) };
  const outputs = {};
  for (const one of data.scores) {
    const name = data.scores.length > 1 ? one.name : '';
    const said = one.comment ?? null;
    if (one.dataType === 'BOOLEAN') outputs[name] = [one.value ? 'True' : 'False', one.value, said];
    else outputs[name] = typeof one.value === 'string' ? [one.value, null, said] : [null, one.value, said];
  }
  const some = Object.values(outputs).some(([label, score]) => label !== null || score !== null);
  return { outcome: some ? 'scored' : 'abstained', outputs };
}
