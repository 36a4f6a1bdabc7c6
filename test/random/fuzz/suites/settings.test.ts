import { insist, hasControl, isIn, insistOnEndpoint } from '../engine/properties.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import { type Config, optionNames } from '../../../../config/options.ts';
import { attemptLater, testTarget } from '../engine/run.ts';
import { mutateText } from '../engine/mutate.ts';
import { yamlFiles, makeConfigWords } from '../generate/config.ts';
import { readDocument } from '../../../../config/file.ts';
import { isDeepStrictEqual } from 'node:util';
import { parseCommandLine } from '../../../../cli/program.ts';
import { readConfig, toArguments } from '../../../../config/load.ts';
import { splitShellWords } from './shell.ts';
import { quoteWords } from '../../../../lib/text.ts';
import { makeHostileText, addressTexts, edgeNumbers } from '../engine/hostile.ts';
import { parseAddress, type Endpoint, parseEndpoint } from '../../../../lib/net.ts';

/** That each problem is one line that a terminal can take. */
function insistOnProblems(problems: readonly string[]): void {
  for (const problem of problems)
    insist(!hasControl(new VipnatError('CONFIG_INVALID', problem).message), JSON.stringify(problem));
}

/** That the addresses of a configuration are in its sources, and its parts of the shapes that Config promises. */
function insistOnConfig({ vips, endpoints, clusterIps, probeIntervalMs }: Config, source: string): void {
  const isInSource = isIn(source);
  for (const endpoint of [...vips, ...endpoints]) insistOnEndpoint(endpoint, isInSource);
  for (const address of Object.values(clusterIps)) insist(isInSource(address), `not in it: ${address}`);
  insist(probeIntervalMs >= 20 && probeIntervalMs <= 10_000, 'a time between its bounds');
}

testTarget('YAML files, with faults: settings, or problems that each are one line', {
  name: 'YAML',
  cases: 6000,
  make: (random) => mutateText(random, yamlFiles),
  check: (text) => {
    const { settings, problems } = readDocument(text, '/etc/vipnat.yaml');
    insistOnProblems(problems.map((problem) => problem.text));
    const lines = problems.map(({ line }) => line ?? 0);
    const sorted = lines.toSorted((one, other) => one - other);
    insist(isDeepStrictEqual(lines, sorted), 'problems in the order of lines');
    for (const name of settings.keys())
      insist((optionNames as readonly string[]).includes(name), `no option: ${name}`);
  },
});

const elsewhere = { file: undefined, isForElsewhere: true } as const;

testTarget(
  'options from any source: a configuration whose addresses are in it, which its own flags give again',
  {
    name: 'flags and variables',
    cases: 3000,
    make: makeConfigWords,
    check: async ({ environment, args }) => {
      const invocation = await attemptLater(() => parseCommandLine(['check', ...args], '0.1.0'));
      if (invocation instanceof VipnatError || invocation.kind !== 'call') return;
      const { flags } = invocation;
      const { config, problems, given } = await readConfig({ flags, environment, ...elsewhere });
      insistOnProblems([...invocation.problems, ...problems]);
      if (invocation.problems.length + problems.length > 0) return;
      insistOnConfig(config, `${args.join('\n')}\n${Object.values(environment).join('\n')}`);
      const words = toArguments(config, given);
      insist(isDeepStrictEqual(splitShellWords(quoteWords(words)), words), 'taken apart otherwise');
      const again = await parseCommandLine(['check', ...words], '0.1.0');
      if (again.kind !== 'call') throw new Error('its own flags are no command line');
      const read = await readConfig({ flags: again.flags, environment: {}, ...elsewhere });
      insist(isDeepStrictEqual(read.config, config), `not its own flags: ${JSON.stringify(read.problems)}`);
    },
  },
);

testTarget('YAML of options: the configuration holds no address that is not in it', {
  name: 'YAML and checks',
  cases: 3000,
  make: makeConfigWords,
  check: ({ yaml }) => {
    const { settings, problems } = readDocument(yaml, 'file');
    insistOnProblems(problems.map(({ text }) => text));
    insist(
      [...settings.keys()].every((name) => (optionNames as readonly string[]).includes(name)),
      'options only',
    );
    insist(({} as { polluted?: unknown }).polluted === undefined, 'nothing else was changed');
  },
});

testTarget('words for a shell come back as they were, whatever is in them', {
  name: 'shell words',
  cases: 60_000,
  make: (random) => random.list(4, () => `${random.chance(50) ? '--peers=' : ''}${makeHostileText(random)}`),
  check: (words) => {
    const line = quoteWords(words);
    const expected = words.map((word) => word.replaceAll('\0', ''));
    insist(isDeepStrictEqual(splitShellWords(line), expected), `otherwise: ${line}`);
    insist(!hasControl(line), `no line: ${JSON.stringify(line)}`);
  },
});

testTarget('addresses and endpoints: what is read is canonical, and reads again as the same', {
  name: 'addresses and endpoints',
  cases: 100_000,
  make: (random) =>
    mutateText(random, [
      `${random.pick(addressTexts)}:${random.pick(edgeNumbers)}`,
      random.pick(addressTexts),
    ]),
  check: (text) => {
    const address = parseAddress(text);
    if (address !== null)
      insist(isDeepStrictEqual(parseAddress(address.text), address), `not canonical: ${address.text}`);
    const endpoint: Endpoint | null = parseEndpoint(text) ?? parseEndpoint(text, 6443);
    if (endpoint !== null) insistOnEndpoint(endpoint, isIn(text));
  },
});
