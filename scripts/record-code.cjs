// `record-code.cjs DIST ARGUMENTS…`, called by build.mjs: runs the program as start.cjs does, and keeps the code
// that V8 made of all that ran.
const { readFileSync, writeFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const { Script } = require('node:vm');

const filename = `${process.argv.splice(2, 1)[0]}/program.js`;
const script = new Script(readFileSync(filename, 'utf8'), { filename });
process.on('exit', () => {
  writeFileSync(`${filename}.code`, script.createCachedData());
});
script.runInThisContext()(exports, createRequire(filename), module);
module.exports.runProcess();
