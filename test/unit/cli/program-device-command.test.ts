import { type DriverExample, startDriverExample } from '../../support/documents/driver-example.ts';
import { beforeEach, afterEach, describe, test, expect } from '@jest/globals';
import { writeFileSync, readFileSync } from 'node:fs';
import { runHere } from '../../support/documents/call.ts';
import { join } from 'node:path';
import { waitUntil } from '../../support/jest/waiting.ts';
import { listChecks } from '../../../devices/conformance/steady-checks.ts';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';

let example: DriverExample;
beforeEach(async () => {
  example = await startDriverExample();
});
afterEach(() => {
  example.end();
});

function toArgs(action: string, words: readonly string[]): readonly string[] {
  const { description, driver } = example;
  return ['device', action, '--device', description, '--driver', driver, ...words];
}

const run = async (action: string, words: readonly string[] = []) => await runHere(toArgs(action, words), {});

/** In a process of its own: Jest loads no module twice. */
async function conform(words: readonly string[], onOutput?: (child: ChildProcess) => void) {
  const args = toArgs('conformance', ['--ports', '18080,18081,18443', ...words]);
  const child = spawn(process.execPath, ['cli/main.ts', ...args]);
  let [stdout, stderr] = ['', ''];
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  if (onOutput !== undefined) child.stdout.once('data', onOutput.bind(null, child));
  const [exitCode] = (await once(child, 'close')) as [number | null];
  return { exitCode, stdout, stderr };
}

function writeDevice(spec: readonly string[]): string {
  const file = join(example.folder, 'edge.yaml');
  const head = ['apiVersion: vipnat.io/v1alpha1', 'kind: LoadBalancerDevice', 'metadata: { name: edge }'];
  writeFileSync(file, [...head, 'spec:', ...spec.map((line) => `  ${line}`)].join('\n'));
  return file;
}

const web = () => join(example.folder, 'web.yaml');

/** A balancer that the suite or another cluster made. */
async function putBalancer(cluster: string, port = 18090): Promise<void> {
  const member = { address: { family: 'ipv4', text: '10.1.2.3' }, port: 8080, weight: 5 };
  await example.putObject(`vipnat_${cluster}_shop_web_u1`, {
    addresses: [{ family: 'ipv4', text: example.address }],
    listeners: [{ protocol: 'tcp', port, members: [member, { ...member, port: 81, weight: 1 }] }],
    method: 'lc',
    affinityS: 60,
  });
}

const actions = () => ['--actions', join(example.folder, 'actions.mjs')];

/** A driver of its own, which is the example's but for these methods. */
function writeDriver(methods: string, more = ''): string {
  const wrong = join(example.folder, 'wrong.mjs');
  const text = `import { createDriver as create } from './driver.mjs';
    ${more}
    export function createDriver(settings, context) {
      const right = create(settings, context);
      return { ...right, ${methods} };
    }`;
  writeFileSync(wrong, text);
  return wrong;
}

describe('vipnat device conformance', () => {
  test('prints a line for each check and counts them; nothing is left on the device', async () => {
    const { exitCode, stdout, stderr } = await conform(['--members', '127.0.0.1,::1', ...actions()]);
    expect(stdout).not.toMatch(/^failed/m);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    for (const { name } of listChecks())
      expect(stdout).toMatch(new RegExp(`^(?:passed   |not run  )${name}: \\S`, 'm'));
    for (const name of ['drain', 'unreachable']) expect(stdout).toContain(`\npassed   ${name}: `);
    expect(stdout).toMatch(/\n\d\d passed, 0 failed, \d+ not run\n$/);
    expect(await example.readDevice()).toEqual({});
  });

  test.each([
    [
      'remembers in its module what it was told',
      'ensure-list',
      'after ensure, list misses',
      `ensure(wanted, signal) { known.set(wanted.id.uid, wanted); return right.ensure(wanted, signal); },
       remove(id, signal) { known.delete(id.uid); return right.remove(id, signal); },
       list: async () => [...known.values()].filter(({ id }) => id.cluster === settings.cluster)
         .map((balancer) => ({ balancer, memberToSessions: null })),`,
      'const known = new Map();',
    ],
    [
      'has another port of members than it lists',
      'ensure-list',
      'a client of tcp/18080 of shop/web at 127.',
      `ensure: (wanted, signal) => right.ensure(shift(wanted, 1), signal),
       plan: (wanted, signal) => right.plan(shift(wanted, 1), signal),
       list: async (signal) => (await right.list(signal))
         .map((one) => ({ ...one, balancer: shift(one.balancer, -1) })),`,
      `const shift = (balancer, by) => ({ ...balancer, listeners: balancer.listeners.map((one) =>
         ({ ...one, members: one.members.map((each) => ({ ...each, port: each.port + by })) })) });`,
    ],
    [
      'says done to each error',
      'unreachable',
      'a client of tcp/18080',
      `ensure: async (...given) => { await right.ensure(...given); return { result: 'done' }; },`,
    ],
    [
      'knows its state without a question',
      'unreachable',
      'readState says that u is active',
      `readState: async () =>
         ({ units: [{ unit: 'u', role: 'active', isInSync: true, why: '' }], foreignChanges: [] }),`,
    ],
  ])('finds a driver that %s', async (...[, only, message, methods, more = '']) => {
    const words = [
      '--driver',
      writeDriver(methods, more),
      '--only',
      only,
      '--members',
      '127.0.0.1',
      ...actions(),
    ];
    const { exitCode, stdout } = await conform(words);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: expect.stringContaining(message) });
  });

  test('prints a report as JSON, of the checks that are asked for, and exits with 2 where one fails', async () => {
    await putBalancer('prod');
    const wrong = writeDriver(`remove: (id, signal) => id.name === 'never-there'
      ? Promise.resolve({ result: 'failed', why: 'there is none' }) : right.remove(id, signal)`);
    const words = ['--json', '--only', 'remove-unknown', '--only', 'many-members', '--only', 'drain'];
    const { exitCode, stdout } = await conform([...words, '--driver', wrong]);
    expect(exitCode).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ version: 1, device: 'edge', driver: wrong, capabilities: { udp: false, drain: true } },
      results: [
        {
          name: 'remove-unknown',
          outcome: 'failed',
          why: 'remove number 1 of what is not there is failed: there is none',
        },
        { name: 'many-members', outcome: 'passed', why: null },
        { name: 'drain', outcome: 'not run', needs: ['openSession'] },
      ],
      counts: { passed: 1, failed: 1, notRun: 1 },
      interruption: null,
    });
    expect(Object.keys(await example.readDevice())).toEqual(['vipnat_prod_shop_web_u1']);
  });

  test('refuses a device that has balancers of the suite, unless it is to remove them', async () => {
    await putBalancer('vipnat-conformance');
    const words = ['--only', 'ensure-list'];
    expect(await conform(words)).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringMatching(/^vipnat: \[DEVICE_IN_USE\] .*conformance\/web.*--remove-leftovers\n$/),
    });
    expect(Object.keys(await example.readDevice())).toHaveLength(1);
    expect(await conform([...words, '--remove-leftovers'])).toMatchObject({ exitCode: 0 });
    expect(await example.readDevice()).toEqual({});
  });

  test('ends by a signal, and removes what it made before', async () => {
    const isThere = async () => Object.keys(await example.readDevice()).length > 0;
    const { exitCode, stdout, stderr } = await conform([], (child) => {
      // When the next check has put something there.
      void waitUntil(isThere, 'nothing is on the device').then(() => child.kill('SIGINT'));
    });
    expect(exitCode).toBe(130);
    expect(stdout).toMatch(/^ended early: it was interrupted\n\d+ passed, 0 failed, \d+ not run\n$/m);
    expect(stderr).toMatch(/^vipnat removes what the suite made/);
    expect(await example.readDevice()).toEqual({});
  });

  test('says which check is meant by a wrong name', async () => {
    expect(await conform(['--only', 'ensure-lits'])).toEqual({
      exitCode: 78,
      stdout: '',
      stderr: 'vipnat: [CONFIG_INVALID] --only ensure-lits is not a check. Did you mean ensure-list?\n',
    });
  });
});

describe('vipnat device', () => {
  test('list prints what the device has of the cluster, and as JSON what plan takes', async () => {
    expect(await run('list')).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^no balancer/) });
    await putBalancer('prod');
    await putBalancer('stage', 18091);
    expect((await run('list')).stdout).toMatch(
      /^BALANCER +ADDRESSES +PORT +METHOD +MEMBERS\nshop\/web +127\.\S+ +tcp\/18090 +lc, 60 s +10\.1\.2\.3:8080 weight 5, 10\.1\.2\.3:81\n$/,
    );
    const { stdout } = await run('list', ['--json']);
    const { balancers } = JSON.parse(stdout) as { readonly balancers: readonly unknown[] };
    expect(balancers).toHaveLength(1);
    writeFileSync(web(), JSON.stringify(balancers[0]));
    expect(await run('plan', ['--balancer', web()])).toEqual({
      ...{ exitCode: 0, stdout: 'Nothing to change.\n', stderr: '' },
    });
  });

  test('plan prints the changes, for people and as JSON, and writes nothing', async () => {
    const { exitCode, stdout } = await run('plan', ['--balancer', web()]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^\+ vipnat_prod_shop_web_\S+: .*\n\n1 change\. vipnat wrote nothing\.\n$/);
    const { changes } = JSON.parse((await run('plan', ['--balancer', web(), '--json'])).stdout) as {
      readonly changes: readonly { readonly after: string }[];
    };
    expect(JSON.parse(changes[0]?.after ?? '')).toMatchObject({
      method: 'rr',
      affinityS: 600,
      listeners: [
        {
          protocol: 'tcp',
          members: expect.arrayContaining([
            { address: { family: 'ipv4', text: '10.1.2.4' }, port: 8443, weight: 0 },
          ]),
        },
      ],
    });
    expect(await example.readDevice()).toEqual({});
  });

  test('state prints each unit', async () => {
    expect(await run('state')).toEqual({
      exitCode: 0,
      stdout: expect.stringMatching(/^UNIT +ROLE +IN SYNC +WHY\n\S+edge\.sock +active +unknown\n$/),
      stderr: '',
    });
  });

  test('tells with its code what the driver says of the device', async () => {
    const away = writeDevice(['cluster: prod', `units: [${join(example.folder, 'none.sock')}]`]);
    const { exitCode, stderr } = await run('list', ['--device', away]);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /^vipnat: \[DEVICE_FAILED\] cannot read the device edge: unreachable: connect ENOENT/,
    );
  });

  test('tells what the driver refuses, and asks no unit for that', async () => {
    const secret = join(example.folder, 'secret');
    writeFileSync(secret, 'username: vipnat\npassword: word\n');
    writeFileSync(web(), readFileSync(web(), 'utf8').replace(/port: \d+/, 'port: 65535'));
    const words = ['--driver', 'alteon', '--credentials', secret, '--balancer', web()];
    const alteon = writeDevice(['cluster: prod', 'units: ["https://127.0.0.1:1"]']);
    const { exitCode, stderr } = await run('plan', ['--device', alteon, ...words]);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^vipnat: \[DEVICE_FAILED\] .* refused: an Alteon cannot have it: port 65535/);
  });
});

describe('vipnat device configuration', () => {
  const configure = async (spec: readonly string[], words: readonly string[] = []) => {
    const file = writeDevice(spec);
    writeFileSync(join(example.folder, 'secret'), 'username: vipnat\npassword: a secret word\n');
    const credentials = join(example.folder, 'secret');
    return await run('configuration', ['--device', file, '--credentials', credentials, ...words]);
  };
  const spec = ['cluster: prod', 'units: [10.0.0.11, 10.0.0.12]', 'addresses: [10.0.9.10-10.0.9.12]'];

  test('prints a script that a shell can read, with the files of the unit and without the password', async () => {
    const { exitCode, stdout, stderr } = await configure(spec, ['--driver', 'haproxy', '--unit', '2']);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    execFileSync('sh', ['-n'], { input: stdout });
    expect(stdout.match(/^cat > \S+/gm)).toHaveLength(5);
    expect(stdout).toContain('    bind 10.0.0.12:9443 ssl ');
    expect(stdout).toContain('    unicast_src_ip 10.0.0.12\n    unicast_peer {\n        10.0.0.11\n');
    expect(stdout).not.toContain('a secret word');
  });

  const own = (option: string) => [...spec, `options: { ${option} }`];
  const at = (addresses: string) => [...spec.slice(0, 2), `addresses: [${addresses}]`];
  const twice = ['cluster: prod', 'units: [10.0.0.11, "10.0.0.11:9443"]', ...spec.slice(2)];

  test.each<[readonly string[], RegExp, string?]>([
    [spec, /has no configuration for the driver "alteon"\. It has one for haproxy/, '--driver alteon'],
    [spec, /edge has two units, and each has files of its own\. Example: --unit 1/, '--driver haproxy'],
    [spec.slice(0, 2), /spec\.addresses is empty/],
    [own('ports: 1-65535'), /3 addresses with 65535 ports each/],
    [own('ports: "443,80-81,81"'), /option ports is a list of different ports/],
    [at('10.0.0.0/24'), /spec\.addresses has 10\.0\.0\.11, which is a unit's own/],
    [twice, /both units are the same/],
    [at('2001:db8::1'), /at least one of spec\.addresses must be IPv4, as the unit 10\.0\.0\.11 is/],
    [own('prots: "80"'), /option "prots" is unknown/],
  ])('of %j is refused in one line: %s', async (lines, message, words = '--driver haproxy --unit 1') => {
    const { exitCode, stdout, stderr } = await configure(lines, words.split(' '));
    expect({ exitCode, stdout }).toEqual({ exitCode: 78, stdout: '' });
    expect(stderr).toMatch(message);
  });
});
