// `record-code.cjs DIST ARGUMENTS…`, called by build.mjs: runs the program as start.cjs does, and keeps the code
// that V8 made of all that ran.
const { readFileSync, writeFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const { Script } = require('node:vm');

const path = `${process.argv.splice(2, 1)[0]}/program.js`;
// The same name wherever it is built: V8 keeps it.
const script = new Script(readFileSync(path, 'utf8'), { filename: 'program.js' });
process.on('exit', () => {
  writeFileSync(`${path}.code`, script.createCachedData());
});
script.runInThisContext()(exports, createRequire(path), module);
module.exports.runProcess();
