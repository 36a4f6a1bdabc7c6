/** Makes a release, see scripts/release. */
import { steps, stepNames } from './steps.ts';
import { Command, Argument, Option } from 'commander';
import { join } from 'node:path';
import { rootFolder, defaultOutput, readRelease } from '../settings/release.ts';
import { requireTag } from '../documents/changelog.ts';
import { makeRelease } from './make.ts';
import { ReleaseError } from '../settings/error.ts';
import { LabError } from '../../lab/settings/error.ts';

const say = (line: string) => {
  process.stderr.write(`${line}\n`);
};

const list = steps
  .map(({ name, makes, needs = [] }) => `  ${name.padEnd(12)}${makes}${listNeeds(needs)}`)
  .join('\n');

function listNeeds(needs: readonly string[]): string {
  return needs.length === 0 ? '' : `; needs ${needs.join(', ')}`;
}

const program = new Command('scripts/release')
  .description(
    'Makes the files of a release: those of the named steps, or of all steps for which the machine has the programs.',
  )
  .addArgument(new Argument('[step...]', 'what to make').choices(stepNames))
  .addOption(
    new Option('--output <folder>', 'where the files go').default(
      join(rootFolder, defaultOutput),
      `${defaultOutput} of the checkout`,
    ),
  )
  .option('--tag <tag>', 'stop unless the changelog has this version, and every step can run')
  .addHelpText('after', `\nSteps:\n${list}\n\nAt the end, SHA256SUMS lists all files of the folder.`)
  .configureOutput({
    outputError: (text, write) => {
      write(text.replace(/^error: /, 'release: '));
    },
  })
  .action(async (names: string[], { output, tag }: { output: string; tag?: string }) => {
    const release = readRelease(output, say);
    if (tag !== undefined) requireTag(tag, release);
    process.env['SOURCE_DATE_EPOCH'] = String(release.epoch);
    process.stdout.write(await makeRelease(release, names, tag !== undefined));
  });

try {
  await program.parseAsync();
} catch (error) {
  // The lab builds what comes as Go modules.
  if (!(error instanceof ReleaseError || error instanceof LabError)) throw error;
  say(`release: ${error.message}`);
  process.exitCode = 1;
}
