// dist/start.js: runs program.js with the code that V8 made of it at build time, which is measurably sooner.
// Another version of V8 refuses that code, and then compiles the program as usual.
const { readFileSync } = require('node:fs');
const { Script } = require('node:vm');

const filename = `${__dirname}/program.js`;
const script = new Script(readFileSync(filename, 'utf8'), {
  filename,
  cachedData: readFileSync(`${filename}.code`),
});
script.runInThisContext()(exports, require, module);
