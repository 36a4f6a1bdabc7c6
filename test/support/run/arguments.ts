import { randomInt } from 'node:crypto';
import { Command, InvalidArgumentError } from 'commander';
import type { Extent } from '../jest/extent.ts';
import { findParts, listParts, type Part, parts } from './parts.ts';

/** What a command line of scripts/test asks for. */
export interface RunOptions {
  readonly extent: Extent;
  readonly parts: readonly Part[];
  /** Whether the part chaos runs on a real control plane. */
  readonly isOnLab: boolean;
  /** Variables for all that is started. */
  readonly environment: Readonly<Record<string, string>>;
  readonly jestArguments: readonly string[];
}

interface Flags {
  readonly full?: true;
  readonly long?: true;
  readonly lab?: true;
  readonly seed?: string;
  readonly steps?: string;
}

/**
 * Reads the words behind scripts/test. A part that is named runs in full; without a name the gate runs. Throws commander's error for
 * words that cannot be read, and for `--help`.
 */
export function readArguments(words: readonly string[]): RunOptions {
  const end = words.indexOf('--');
  const command = createCommand().parse(end === -1 ? words : words.slice(0, end), { from: 'user' });
  const flags = command.opts<Flags>();
  const { lab, seed, steps } = flags;
  const walk = {
    ...(seed === undefined ? {} : { CHAOS_SEED: seed }),
    ...(steps === undefined ? {} : { CHAOS_STEPS: steps }),
  };
  const isOnLab = lab === true;
  const named = command.processedArgs[0] as readonly Part[];
  // These options mean that part.
  const isWalk = named.length === 0 && (isOnLab || Object.keys(walk).length > 0);
  const chosen = isWalk ? findParts('chaos') : parts.filter((part) => named.includes(part));
  const extent = chooseExtent(flags, chosen.length > 0);
  return {
    ...{ extent, isOnLab },
    environment: { ...walk, ...(extent === 'long' ? { TEST_SEED: chooseSeed() } : {}) },
    parts: chosen.length > 0 ? chosen : listParts(extent),
    jestArguments: end === -1 ? [] : words.slice(end + 1),
  };
}

function chooseExtent({ full, long }: Flags, isNamed: boolean): Extent {
  if (long === true) return 'long';
  return full === true || isNamed ? 'full' : 'gate';
}

/** Random cases are the same in each run, but with `--long`. */
function chooseSeed(): string {
  return process.env['TEST_SEED'] ?? String(randomInt(2 ** 31));
}

function createCommand(): Command {
  return new Command('scripts/test')
    .description(
      'Runs tests: the gate, or the named layers and parts in full. The last line is: N passed, N failed',
    )
    .usage('[LAYER|PART…] [options] [-- JEST ARGUMENTS]')
    .argument('[part...]', `layers or parts: ${listWords().join(' ')}`, readPart, [])
    .option('--full', 'all but what takes hours')
    .option('--long', 'everything, which may take all night')
    .option('--lab', 'the part chaos on a real control plane')
    .option('--seed <number>', 'one fault sequence of the part chaos', readNumber)
    .option('--steps <number>', 'how long that sequence is', readNumber)
    .configureOutput({
      outputError: (text, write) => {
        write(text.replace(/^error: /, 'test: '));
      },
    })
    .exitOverride();
}

function readNumber(value: string): string {
  if (!/^\d+$/.test(value)) throw new InvalidArgumentError('It needs a number.');
  return value;
}

function readPart(word: string, before: readonly Part[]): readonly Part[] {
  const found = findParts(word);
  if (found.length === 0) throw new InvalidArgumentError(`There are: ${listWords().join(' ')}`);
  return [...before, ...found];
}

function listWords(): string[] {
  return [...new Set(parts.flatMap(({ layer, name }) => [layer, name]))];
}
