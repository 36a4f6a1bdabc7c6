// dist/start.js: runs program.js with the code that V8 made of it at build time, which is measurably sooner.
// Another version of V8 refuses that code, and then compiles the program as usual. So it does where no such code lies
// beside the program: what is published for any Node.js has none.
const { existsSync, readFileSync } = require('node:fs');
const { Script } = require('node:vm');

const filename = `${__dirname}/program.js`;
const codeFile = `${filename}.code`;
// The build refuses a program that is not ASCII: this way nothing is decoded.
const script = new Script(readFileSync(filename, 'latin1'), {
  filename,
  cachedData: existsSync(codeFile) ? readFileSync(codeFile) : undefined,
});
script.runInThisContext()(exports, require, module);
