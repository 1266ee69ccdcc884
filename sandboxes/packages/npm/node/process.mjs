// What packages take for granted of Node's global names. A script's `process` is none of the machine's.
const seconds = () => performance.now() / 1000;
const none = () => process;

export const process = {
  env: {},
  argv: ["deno"],
  execArgv: [],
  version: "v22.0.0",
  versions: { node: "22.0.0" },
  release: { name: "node" },
  platform: "linux",
  arch: "x64",
  pid: 1,
  title: "deno",
  exitCode: undefined,
  stdout: { isTTY: false, columns: 80, write: () => true },
  stderr: { isTTY: false, columns: 80, write: () => true },
  cwd: () => "/",
  umask: () => 18,
  uptime: seconds,
  hrtime: /* @__PURE__ */ Object.assign(() => [Math.floor(seconds()), Math.floor((seconds() % 1) * 1e9)], {
    bigint: () => BigInt(Math.floor(performance.now() * 1e6)),
  }),
  memoryUsage: () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }),
  nextTick: (call, ...given) => queueMicrotask(() => call(...given)),
  emitWarning: () => {},
  emit: () => false,
  listeners: () => [],
  on: none,
  once: none,
  off: none,
  addListener: none,
  removeListener: none,
};
