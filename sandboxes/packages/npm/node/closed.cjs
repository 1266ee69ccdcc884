// A module of Node that no script has: it can be imported, as many packages do for what they never use here, and an
// error tells its name where something of it is called.
function closed(name) {
  const refuse = () => {
    throw new Error(`a script in a sandbox has no ${name}, which a package uses`);
  };
  return new Proxy(refuse, {
    get: (_, key) => {
      if (typeof key === "symbol" || ["__esModule", "then", "prototype"].includes(key)) return refuse[key];
      return key === "default" ? closed(name) : closed(`${name}.${key}`);
    },
    set: () => true,
    construct: refuse,
  });
}
module.exports = closed;
