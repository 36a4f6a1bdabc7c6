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

const listFlags = (text: string) => [...text.matchAll(/^ {2}(?:-h, )?(--[a-z-]+)/gm)].map(([, flag]) => flag);

/** Everything that has a help of its own. */
const topics = [...commandNames, ...manifestKinds.map((kind) => `manifest ${kind}`)];

describe('help', () => {
  test.each([[[]], [['help']], [['-h']], [['--help']]])('of all is what %j prints', async (args) => {
    const text = await read(args);
    expect(text).toMatch(/^Usage: vipnat COMMAND \[options\]\n/);
    for (const name of commandNames) expect(text).toMatch(new RegExp(`^ {2}${name} {2,}\\S`, 'm'));
  });

  // Behind help, doctor is its checks.
  test.each(topics.filter((topic) => topic !== 'doctor'))(
    'of %s is the same behind help and before --help',
    async (words) => {
      const topic = words.split(' ');
      const text = await read(['help', ...topic]);
      expect(text).toBe(await read([...topic, '--help']));
      expect(text).toMatch(new RegExp(`^Usage: vipnat ${topic[0] ?? ''}`));
      // No stray blank begins a line below the options.
      expect(text).not.toMatch(/^ \S/m);
    },
  );

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
  });

  test.each([
    ['run', /^Options of run:.*^What to.*:$.*^How to.*:$.*^Health.*:$.*^Kube.*:$.*^Files.*:$.*^Log:$.*^Ex/ms],
    ...['plan', 'check', 'status', 'doctor'].map((name) => [name, /no option is\sneeded/] as const),
    ['status', /--watch\[=SECONDS\] .*\(default: 1\)$/m],
    ['manifest daemonset', /^Usage: vipnat manifest daemonset [^]*--namespace .*: kube-system\)$/m],
    ['keepalived', /--output FILE .*\(default: standard output\)$/m],
    ['manifest systemd', /--directory FOLDER .*\(default: print them\)$/m],
    ['balancer', /--run-dir .* keepalived's files, .*\(default: \/run\/vipnat-lb\)$/m],
    ['balancer', /--listen .* the balancer serves .*\(default: off\)$/m],
    ['controller', /--vip .* no pool may have[^]*--listen .* controller .*: 127\.0\.0\.1:10268\)$/m],
    ['manifest services', /--listen .* the controller serves .*\(default: \[::\]:10268\)$/m],
    ['manifest services', /^(?!.*\bdaemonset).*$/s],
    ['device', /^Usage: vipnat device ACTION .* --unit .* --ports .*$/s],
    ['device plan', /^(?!.*(?:--unit|--ports|device list)).*--balancer .*$/s],
  ])('of %s is about it: %s', async (topic, words) => {
    expect(await read([...topic.split(' '), '--help'], 200)).toMatch(words);
  });

  test.each([
    ['check', '--json --color --no-color --help --vip --kubeconfig --config --log-level'],
    ['cleanup', '--dry-run --json --help --vip --state-dir --config --log-level'],
    ['vrid', '--json --help'],
  ])('of %s lists what a person gives, and names the rest in one line', async (topic, flags) => {
    const text = await read(['help', topic]);
    expect(listFlags(text)).toEqual(flags.split(' '));
    const more = /^It also takes the options of the agent: vipnat run --help$/m;
    expect(more.test(text)).toBe(topic !== 'vrid');
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

  test.each(topics)('of %s fits 60 columns, but for lines to paste', async (topic) => {
    const long = (await read([...topic.split(' '), '--help'], 60))
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
  ['--driver', 'nginx=/etc/vipnat/drivers/nginx.mjs'],
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
