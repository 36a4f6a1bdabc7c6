/**
 * Stands at the beginning of program.js: a require() that loads these of Node's own modules at the first use of something in them. Each
 * takes up to 9 ms and 2 MB, and imports name many that a command then does not use.
 */
module.exports = function lateRequire(load) {
  const late = new Set(
    'child_process crypto dgram dns fs/promises http https net os tls tty v8'
      .split(' ')
      .map((name) => `node:${name}`),
  );
  const nameToModule = new Map();
  const promise = (name) => {
    const own = {};
    const find = (_target, key) => {
      const found = load(name);
      // What lies in front of the proxy is found without it from now on.
      Object.defineProperties(own, Object.getOwnPropertyDescriptors(found));
      return found[key];
    };
    return Object.setPrototypeOf(own, new Proxy({}, { get: find }));
  };
  return (name) => {
    if (!late.has(name)) return load(name);
    if (!nameToModule.has(name)) nameToModule.set(name, promise(name));
    return nameToModule.get(name);
  };
};
