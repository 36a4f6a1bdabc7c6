/**
 * Shows that the gate finds broken vipnats: `main.ts [--part PART]… [NAME…]`, see scripts/broken. Each is made in a copy of the
 * checkout, which goes afterwards.
 */
import { execa } from 'execa';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';
import { existsSync, mkdirSync, cpSync, symlinkSync, readFileSync, writeFileSync } from 'node:fs';
import { join, dirname } from 'node:path';
import { type Broken, broken } from './broken.ts';
import { TemporaryFolder } from '../network/at-end.ts';
import { changeSource } from './source-change.ts';
import { parseArgs } from 'node:util';

/** The part of Jest's results that says what failed. */
interface JestResults {
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

/** A copy of the checkout as it is, with what git does not know yet, and with the same packages. */
async function copyCheckout(folder: string): Promise<void> {
  const { stdout } = await execa('git', ['ls-files', '-co', '--exclude-standard'], { cwd: rootFolder });
  const files = stdout
    .split('\n')
    .filter((file) => file !== 'node_modules' && existsSync(join(rootFolder, file)));
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(rootFolder, file), join(folder, file), { verbatimSymlinks: true });
  }
  symlinkSync(join(rootFolder, 'node_modules'), join(folder, 'node_modules'));
}

/** Runs tests of the gate; answers the first that fails, `FILE › TITLE`, or null. */
async function findFailure(folder: string, part: string, files: string): Promise<string | null> {
  const results = join(folder, 'results.json');
  const words = ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning'];
  const jest = [join(folder, 'node_modules/jest/bin/jest.js'), '--selectProjects', part];
  const what = ['--testPathPatterns', files, '--json', '--outputFile', results];
  const env = { TEST_EXTENT: 'gate', TEST_EVIDENCE: join(folder, 'evidence') };
  await execa(process.execPath, [...words, ...jest, ...what], { cwd: folder, env, reject: false });
  const { testResults } = JSON.parse(readFileSync(results, 'utf8')) as JestResults;
  if (testResults.length === 0) throw new Error(`the gate has no ${files} in the part ${part}`);
  for (const { name, message, assertionResults } of testResults) {
    const failed = assertionResults.find(({ status }) => status === 'failed');
    if (failed !== undefined) return `${name.slice(folder.length + 1)} › ${failed.fullName}`;
    if (assertionResults.length === 0) return `${name.slice(folder.length + 1)}: ${message}`;
  }
  return null;
}

/** Answers whether a test said so; all of them are asked where all is wanted. */
async function isFound(one: Broken, parts: readonly string[], wantsAll: boolean): Promise<boolean> {
  const temporary = new TemporaryFolder('broken');
  let found = false;
  try {
    await copyCheckout(temporary.path);
    writeFileSync(join(temporary.path, one.file), changeSource(one));
    await execa('scripts/build', { cwd: temporary.path });
    const asked = parts.length === 0 ? one.caughtBy : parts.map((part) => `${part} .`);
    for (const [part = '', files = ''] of asked.map((text) => text.split(' '))) {
      const failure = await findFailure(temporary.path, part, files);
      console.log(`${one.name} (${one.file}): ${part}: ${failure ?? `${files} passes`}`);
      found ||= failure !== null;
      if (found && !wantsAll) break;
    }
  } finally {
    temporary.remove();
  }
  return found;
}

const usage = `Shows that the gate finds broken vipnats, and which test says so first.
  scripts/broken [--all] [--part PART]… [NAME]…
      --all asks all tests that are named for it; --part asks whole parts of the gate
NAME: ${Object.keys(broken).join(', ')}`;

async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      part: { type: 'string', multiple: true, default: [] },
      all: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    console.log(usage);
    return 0;
  }
  const isKnown = (key: string) => Object.hasOwn(broken, key);
  const stranger = positionals.find((key) => !isKnown(key));
  if (stranger !== undefined) throw new TypeError(`there is no ${stranger}`);
  const chosen = Object.entries<Broken>(broken).filter(
    ([key]) => positionals.length === 0 || positionals.includes(key),
  );
  let missed = 0;
  for (const [key, one] of chosen) {
    if (await isFound(one, values.part, values.all)) continue;
    missed += 1;
    console.log(`${key} is not found`);
  }
  return missed === 0 ? 0 : 1;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof TypeError)) throw error;
  console.error(`broken: ${error.message}\n${usage}`);
  process.exitCode = 1;
}
