import { describe, expect, test } from '@jest/globals';
import { parseCommandLine } from '../../../../cli/grammar/command-line.ts';

const parse = (...args: string[]) => parseCommandLine(args, '1.2.3');

describe('a command line', () => {
  test('names the command, its switches and what flags were given', () => {
    expect(
      parse('plan', '--offline', '--vip', '10.0.0.50', '--format=restore', '--vip', '10.0.0.51'),
    ).toMatchObject({
      kind: 'configured',
      command: { name: 'plan', options: { format: 'restore', offline: true, json: false, family: null } },
      flags: { vip: ['10.0.0.50', '10.0.0.51'] },
      problems: [],
    });
    expect(parse('run', '--config', '/etc/vipnat.yaml', '--dry-run')).toMatchObject({
      command: { name: 'run', options: { once: false, dryRun: true } },
      file: '/etc/vipnat.yaml',
    });
  });

  test.each(['plan', 'check', 'status', 'doctor'])('can ask %s for JSON in one spelling', (name) => {
    expect(parse(name)).toMatchObject({ command: { name, options: { json: false } } });
    expect(parse(name, '--json')).toMatchObject({ command: { name, options: { json: true } }, problems: [] });
  });

  test('cleanup is narrowed by the flag, and takes --dry-run and --json', () => {
    expect(parse('cleanup')).toMatchObject({
      command: { options: { dryRun: false, json: false, isNarrowed: false } },
    });
    expect(parse('cleanup', '--vip', '10.0.0.50', '--dry-run', '--json')).toMatchObject({
      command: { options: { dryRun: true, json: true, isNarrowed: true } },
      flags: { vip: ['10.0.0.50'] },
      problems: [],
    });
  });

  test('can ask vrid for JSON, before or after the address', () => {
    expect(parse('vrid', '10.0.0.50')).toEqual({ kind: 'vrid', vip: '10.0.0.50', json: false });
    for (const words of [
      ['--json', '10.0.0.50'],
      ['10.0.0.50', '--json'],
    ]) {
      expect(parse('vrid', ...words)).toEqual({ kind: 'vrid', vip: '10.0.0.50', json: true });
    }
  });

  test('asks for the commands format, online, unless it says otherwise', () => {
    expect(parse('plan')).toMatchObject({ command: { options: { format: 'commands', offline: false } } });
  });

  test('can ask for the version, for help of all and of each command', () => {
    expect(parse('--version')).toEqual({ kind: 'text', text: '1.2.3\n' });
    const help = parse('--help');
    expect(help).toMatchObject({ kind: 'text' });
    for (const command of ['run', 'plan', 'check', 'doctor', 'cleanup', 'vrid', 'manifest', 'keepalived']) {
      expect(help).toMatchObject({ text: expect.stringMatching(new RegExp(`^ +${command} `, 'm')) });
      expect(parse(command, '--help')).toMatchObject({
        text: expect.stringMatching(/Examples?:[^]*Exit status:/),
      });
    }
  });

  test.each(['plan', 'manifest daemonset'])(
    'help of %s fits 80 columns and shows choices with their default',
    (topic) => {
      const help = parse(...topic.split(' '), '--help');
      const text = help.kind === 'text' ? help.text : '';
      expect(text).toMatch(/--proxy-mode MODE .*\n.*auto \(default\), iptables/);
      const options = text.slice(text.indexOf('Options of'), text.indexOf('Examples:'));
      expect(options.split('\n').filter((line) => line.length > 80)).toEqual([]);
    },
  );

  test('manifest takes what to print, before or after its options', () => {
    const request = {
      kind: 'static-pod',
      image: 'vipnat:2',
      namespace: 'kube-system',
      leastPrivilege: false,
    };
    for (const words of [
      ['static-pod', '--image', 'vipnat:2', '--vip', '10.0.0.50'],
      ['--vip', '10.0.0.50', '--image=vipnat:2', 'static-pod'],
    ]) {
      expect(parse('manifest', ...words)).toMatchObject({
        command: { name: 'manifest', options: request },
        flags: { vip: ['10.0.0.50'] },
        problems: [],
      });
    }
    expect(parse('manifest', 'daemonset', '--least-privilege', '--namespace', 'x')).toMatchObject({
      command: { options: { kind: 'daemonset', image: null, namespace: 'x', leastPrivilege: true } },
    });
  });

  test('of keepalived has its own switches beside those of the configuration', () => {
    expect(
      parse('keepalived', '--vip', '10.0.0.50', '--peers', '10.0.0.11', '--peers=10.0.0.12', '--vrid', '0'),
    ).toMatchObject({
      command: { name: 'keepalived' },
      flags: { vip: ['10.0.0.50'] },
      problems: ['--vrid 0 is not a whole number from 1 to 255. Example: --vrid 51'],
    });
    expect(parse('keepalived', '--peers', '10.0.0.11', '--peers=10.0.0.12,10.0.0.13')).toMatchObject({
      command: { options: { peers: [{ text: '10.0.0.11' }, { text: '10.0.0.12' }, { text: '10.0.0.13' }] } },
    });
  });

  test('of doctor has how long to listen, in its unit', () => {
    expect(parse('doctor', '--all', '--capture', '0s')).toMatchObject({
      command: { name: 'doctor', options: { json: false, all: true, captureMs: 0 } },
      problems: [],
    });
    expect(parse('doctor', '--json')).toMatchObject({
      command: { options: { json: true, captureMs: 3500 } },
    });
    expect(parse('doctor', '--capture', '5')).toMatchObject({
      problems: ['--capture 5 is not a duration with its unit, ms or s. Example: --capture 5s'],
    });
  });

  test.each([
    [['--watch'], 1000],
    [['--watch=5'], 5000],
    [['--watch', '5'], 5000],
    [['--watch', '0.5', '--json'], 500],
    [['--watch=500ms'], 500],
    [['--watch', '--watch=2s'], 2000],
    [[], null],
  ])('of status with %j reads again after %p ms', (words, watchMs) => {
    expect(parse('status', '--vip', '10.0.0.50', ...words)).toMatchObject({
      command: { name: 'status', options: { watchMs } },
      flags: { vip: ['10.0.0.50'] },
      problems: [],
    });
  });

  test.each([
    [['--watch=x'], '--watch x is not a number of seconds. Example: --watch=5'],
    [['--watch', 'now'], '--watch now is not a number of seconds. Example: --watch=5'],
    [['--watch='], '--watch "" is not a number of seconds. Example: --watch=5'],
    [['--watch=0'], '--watch 0 is not between 100ms and 3600s. Example: --watch=5'],
    [['--watch=5', '--watch=1e3'], '--watch 1e3 is not a number of seconds. Example: --watch=5'],
    [['--watch=86400'], '--watch 86400 is not between 100ms and 3600s. Example: --watch=5'],
    [['--watch', '-1'], '--watch -1 is not a number of seconds. Example: --watch=5'],
  ])('of status with %j has one problem', (words, problem) => {
    expect(parse('status', ...words)).toMatchObject({ problems: [problem] });
  });
});

describe('a command line that cannot be understood', () => {
  test.each([
    [['pln'], 'pln is not a command. Did you mean plan?'],
    [
      ['examine'],
      'examine is not a command. Commands: run, plan, check, status, doctor, drain, undrain, cleanup, vrid, manifest, keepalived, controller, balancer, services, seats, device, completion, help, version',
    ],
    [['--vip', '10.0.0.50', 'plan'], '--vip comes after the command. Example: vipnat plan --vip …'],
    [['--verbose'], '--verbose is not an option. See vipnat --help'],
    [['plan', '--vip'], '--vip needs a value. Example: --vip 10.0.0.50:6443'],
    [['plan', '--format'], '--format needs a value'],
    [['vrid'], 'vrid needs the virtual IP. Example: vipnat vrid 10.0.0.50'],
  ])('%j is refused with the way out', (args, message) => {
    expect(() => parse(...args)).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID', message }));
  });
});

describe('words that do not belong there', () => {
  const problemsOf = (...args: string[]) => {
    const invocation = parse(...args);
    return invocation.kind === 'configured' ? invocation.problems : [];
  };

  test('all unknown options are told, with the nearest one, and other options still count', () => {
    expect(
      problemsOf('check', '--vpi', '10.0.0.50', '--offline', '--mode', 'direct', '--proxymode=x'),
    ).toEqual([
      '--vpi is not an option of check. Did you mean --vip?',
      '--offline is not an option of check. See vipnat check --help',
      '--proxymode is not an option of check. Did you mean --proxy-mode?',
    ]);
    expect(parse('check', '--nonsense', '--mode', 'direct')).toMatchObject({ flags: { mode: 'direct' } });
  });

  test.each([
    ['check', '--json'],
    ['run', '--log-format'],
  ])('--format json leads %s to %s', (command, flag) => {
    const [problem] = problemsOf(command, '--format', 'json');
    expect(problem).toBe(`--format is not an option of ${command}. Did you mean ${flag}?`);
  });

  test('words without an option are too many', () => {
    expect(problemsOf('plan', 'now')).toEqual(['now is one word too many. See vipnat plan --help']);
  });

  test.each([
    [
      [],
      [
        'manifest needs a kind: daemonset, static-pod, keepalived, systemd, services. Example: vipnat manifest daemonset --vip 10.0.0.50',
      ],
    ],
    [
      ['static-pd'],
      [
        'static-pd is none of daemonset, static-pod, keepalived, systemd, services. Example: vipnat manifest static-pod --vip 10.0.0.50',
      ],
    ],
    [['daemonset', 'static-pod'], ['static-pod is one word too many. See vipnat manifest --help']],
    [['--vpi', '10.0.0.50', 'daemonset'], ['--vpi is not an option of manifest. Did you mean --vip?']],
  ])('manifest %j is told what it can print', (words, problems) => {
    expect(problemsOf('manifest', ...words)).toEqual(problems);
  });

  test('a format that does not exist gets the nearest as example', () => {
    expect(problemsOf('plan', '--format', 'restor')).toEqual([
      '--format restor is none of commands, restore, nft. Example: --format restore',
    ]);
  });

  test('JSON has one spelling: --format json is told so, and --json stands for no other format', () => {
    expect(problemsOf('plan', '--format', 'json')).toEqual([
      '--format json is spelled --json. Example: vipnat plan --json',
    ]);
    expect(problemsOf('plan', '--json', '--format', 'nft')).toEqual([
      '--json and --format exclude each other: each says how to print the plan. Leave one out',
    ]);
  });

  test('a family that does not exist gets an example', () => {
    expect(problemsOf('plan', '--family', 'ip6')).toEqual([
      '--family ip6 is none of ipv4, ipv6. Example: --family ipv6',
    ]);
  });
});
