// The main script of a single executable: runs dist/program.js as scripts/start.cjs does, with every file taken out of the
// executable itself. Only Node's own modules can be required here; whatever dist/ requires by a path is an asset.
const { closeSync, constants, openSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { getAssetKeys, getRawAsset } = require('node:sea');
const { Script } = require('node:vm');

const assets = new Set(getAssetKeys());
const loaded = new Map([['vendor/native.js', () => loadNative('native.node')]]);

requireAsset('program.js').runProcess();

/** The executable's own bytes, not a copy of them: nobody may write into it. */
function readAsset(name) {
  return Buffer.from(getRawAsset(name));
}

function requireAsset(name) {
  if (!loaded.has(name)) loaded.set(name, runAsset(name));
  return loaded.get(name);
}

function runAsset(name) {
  const folder = name.replace(/[^/]*$/, '');
  const module = { exports: {} };
  const requireFrom = (path) =>
    path.startsWith('./') ? requireAsset(folder + path.slice(2)) : require(path);
  compile(name).runInThisContext()(module.exports, requireFrom, module, name, folder);
  return module.exports;
}

/** program.js is a function of the first three already. The name is the one that its ready-made code was recorded with. */
function compile(name) {
  const text = readAsset(name).toString();
  const code = `${name}.code`;
  return new Script(
    name === 'program.js' ? text : `(function(exports,require,module,__filename,__dirname){${text}\n})`,
    {
      filename: name,
      cachedData: assets.has(code) ? readAsset(code) : undefined,
    },
  );
}

// Of asm-generic/fcntl.h, the same on amd64 and arm64 but for O_DIRECTORY, which is a part of it.
const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY;

/**
 * The dynamic linker takes files only. This one never has a name, so nobody can put another in its place, and it is gone
 * with the process however that ends. The first folder serves that is not mounted noexec; hardened hosts mount all but the last so.
 */
function loadNative(asset) {
  const bytes = readAsset(asset);
  const refusals = [];
  for (const folder of ['/dev/shm', tmpdir(), '/run', '/var/tmp', '/var/lib/vipnat']) {
    try {
      return loadUnnamed(folder, bytes);
    } catch (error) {
      refusals.push(`${folder}: ${error.message}`);
    }
  }
  throw new Error(
    `the executable's native part cannot be loaded. Let one of these folders be written and executed from: ${refusals.join('; ')}`,
  );
}

function loadUnnamed(folder, bytes) {
  const descriptor = openSync(folder, O_TMPFILE | constants.O_RDWR, 0o600);
  try {
    // All of it or an error: writeSync ends well where only a part has room, and what is loaded then ends the process (SIGBUS).
    writeFileSync(descriptor, bytes);
    const module = { exports: {} };
    process.dlopen(module, `/proc/self/fd/${descriptor}`);
    return module.exports;
  } finally {
    closeSync(descriptor);
  }
}
