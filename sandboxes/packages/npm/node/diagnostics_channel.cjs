// Nobody listens in a sandbox: packages make channels when they are loaded.
const channel = {
  hasSubscribers: false,
  publish() {},
  subscribe() {},
  unsubscribe: () => false,
  traceSync: (call, _, self, ...given) => call.apply(self, given),
  tracePromise: async (call, _, self, ...given) => call.apply(self, given),
  traceCallback: (call, _, __, self, ...given) => call.apply(self, given),
};
exports.channel = exports.tracingChannel = () => channel;
exports.hasSubscribers = () => false;
exports.subscribe = exports.unsubscribe = () => {};
