import { parseCommandLine } from '../../../cli/program.ts';
import { commandNames } from '../../../cli/table.ts';
import { manifestKinds } from '../../../cli/command.ts';
import { describe, test, expect } from '@jest/globals';
import { schema, optionNames, nameFlag, describeOption } from '../../../config/options.ts';
import { checkCall } from '../../support/documents/call.ts';

async function read(args: readonly string[], width?: number): Promise<string> {
  const invocation = await parseCommandLine(args, '1.2.3', width);
  return invocation.kind === 'text' ? invocation.text : '';
}

/** The flags that a help text lists. */
const listFlags = (text: string) => [...text.matchAll(/^ {2}(?:-h, )?(--[a-z-]+)/gm)].map(([, flag]) => flag);

/** Everything that has a help of its own. */
const topics = [...commandNames, ...manifestKinds.map((kind) => `manifest ${kind}`)];

describe('help', () => {
  test.each([[[]], [['help']], [['-h']], [['--help']]])('of all is what %j prints', async (args) => {
    const text = await read(args);
    expect(text).toMatch(/^Usage: vipnat COMMAND \[options\]\n/);
    for (const name of commandNames) expect(text).toMatch(new RegExp(`^ {2}${name} {2,}\\S`, 'm'));
  });

  test.each(topics)('of %s is the same behind help and before --help', async (words) => {
    const topic = words.split(' ');
    const text = await read(['help', ...topic]);
    expect(text).toBe(await read([...topic, '--help']));
    expect(text).toMatch(new RegExp(`^Usage: vipnat ${topic[0] ?? ''}`));
    // No stray blank begins a line below the options.
    expect(text).not.toMatch(/^ \S/m);
  });

  test('of what is not a command has the hint of the command line', async () => {
    await expect(read(['help', 'sttus'])).rejects.toThrow('sttus is not a command. Did you mean status?');
    await expect(read(['help', '--json'])).rejects.toThrow('--json is not an option. See vipnat --help');
  });

  test.each(['--version', '-v'])('the version is what %s prints', async (word) => {
    expect(await read([word])).toBe('1.2.3\n');
  });

  test('has options in groups with headings', async () => {
    const text = await read(['run', '--help']);
    const headings = [...text.matchAll(/^(\S.*):$/gm)].map(([, heading]) => heading);
    expect(headings).toEqual([
      'Options of run',
      'What to balance',
      'How to balance',
      'Health of apiservers',
      'Kubernetes API',
      'Files and addresses of this host',
      'Log',
      'Examples',
    ]);
  });

  test('shows the default of every option that has one', async () => {
    const text = await read(['run', '--help'], 200);
    const defaults = schema.parse({});
    for (const name of optionNames) {
      const [line = ''] = new RegExp(`^ {2}${nameFlag(name)} .*$`, 'm').exec(text) ?? [];
      const preset = defaults[name];
      const isNone = preset === null || Array.isArray(preset);
      expect({ name, hasDefault: line.includes('(default') }).toEqual({ name, hasDefault: !isNone });
    }
    expect(text).toMatch(/--probe-interval .*\(default: 250ms\)$/m);
    expect(text).toMatch(/--listen .*\(default: 127\.0\.0\.1:10268\)$/m);
    expect(text).toMatch(/--state-dir .*\(default: \/var\/lib\/vipnat\)$/m);
    expect(await read(['status', '--help'], 200)).toMatch(/--watch\[=SECONDS\] .*\(default: 1\)$/m);
    expect(await read(['manifest', 'daemonset', '--help'], 200)).toMatch(
      /--namespace .*\(default: kube-system\)$/m,
    );
  });

  test('of a diagnostic leaves out what makes no difference to it, and says that it is taken', async () => {
    const flags = listFlags(await read(['check', '--help']));
    expect(flags).toEqual(expect.arrayContaining(['--vip', '--mode', '--config', '--log-level']));
    expect(flags).not.toEqual(expect.arrayContaining(['--listen']));
    expect(await read(['check', '--help'])).toMatch(/^Other options of vipnat run have no effect/m);
    expect(listFlags(await read(['cleanup', '--help']))).not.toContain('--mode');
    expect(listFlags(await read(['controller', '--help']))).toContain('--log-level');
    expect(listFlags(await read(['vrid', '--help']))).toEqual(['--json', '--help']);
  });

  test.each([...manifestKinds])('of manifest %s lists no option that it refuses', async (kind) => {
    const flags = listFlags(await read(['manifest', kind, '--help'])).filter(
      (flag) => flag !== '--help' && flag !== '--config',
    );
    expect(flags.length).toBeGreaterThan(3);
    for (const flag of flags) {
      const name = optionNames.find((candidate) => nameFlag(candidate) === flag);
      const value = name === undefined ? (ownExamples.get(flag ?? '') ?? null) : describeOption(name).example;
      const words = ['manifest', kind, flag ?? '', ...(value === null ? [] : [value])];
      const { problems } = await checkCall(words);
      expect(problems.filter((problem) => problem.startsWith(`${flag} `))).toEqual([]);
    }
  });

  test('says where a file is written, and where it goes otherwise', async () => {
    const text = await read(['help', 'keepalived'], 200);
    expect(text).toMatch(/--output FILE .*\(default: standard output\)$/m);
    expect(text).not.toContain('changes nothing');
    expect(await read(['help', 'manifest', 'systemd'], 200)).toMatch(
      /--directory FOLDER .*\(default: print them\)$/m,
    );
  });

  test.each(['plan', 'check', 'status', 'doctor'])(
    'of %s says that an agent spares the options',
    async (name) => {
      const text = (await read(['help', name])).replaceAll(/\s+/g, ' ');
      expect(text).toContain('If an agent runs here, no option is needed');
    },
  );

  test.each(topics)('of %s fits 60 columns, but for lines to paste', async (topic) => {
    const long = (await read(['help', ...topic.split(' ')], 60))
      .split('\n')
      .filter((line) => line.length > 60 && !/^ {2}(?:vipnat|source|echo) /.test(line));
    expect(long).toEqual([]);
  });
});

/** A value that works, by flag; none for a switch. */
const ownExamples = new Map([
  ['--pool', '10.0.9.10-10.0.9.99'],
  ['--balancer-listen', '127.0.0.1:10269'],
  ['--node-probe-port', '10256'],
  ['--default-device', 'edge'],
  ['--gate', 'example.com/load-balancer-ready'],
  ['--image', 'vipnat:2'],
  ['--namespace', 'vipnat'],
  ['--keepalived-image', 'keepalived:2'],
  ['--directory', '/'],
  ['--interface', 'eth0'],
  ['--peers', '10.0.0.11'],
  ['--vrid', '51'],
  ['--priority', '110'],
  ['--advert', '300ms'],
]);
