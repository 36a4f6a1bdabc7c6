import { type DriverExample, writeDriverExample } from '../../support/documents/driver-example.ts';
import { beforeEach, afterEach, describe, test, expect } from '@jest/globals';
import { rmSync, writeFileSync, readFileSync } from 'node:fs';
import { runHere } from '../../support/documents/call.ts';
import { join } from 'node:path';
import { listChecks } from '../../../devices/conformance/steady-checks.ts';
import { execFileSync } from 'node:child_process';

let example: DriverExample;
beforeEach(() => {
  example = writeDriverExample();
});
afterEach(() => {
  rmSync(example.folder, { recursive: true });
});

async function run(action: string, words: readonly string[] = [], onOutput?: (text: string) => void) {
  const { description, driver } = example;
  const args = ['device', action, '--device', description, '--driver', driver, ...words];
  return await runHere(args, {}, onOutput);
}

function writeDevice(spec: readonly string[]): string {
  const file = join(example.folder, 'edge.yaml');
  const head = ['apiVersion: vipnat.io/v1alpha1', 'kind: LoadBalancerDevice', 'metadata: { name: edge }'];
  writeFileSync(file, [...head, 'spec:', ...spec.map((line) => `  ${line}`)].join('\n'));
  return file;
}

const web = () => join(example.folder, 'web.yaml');

/** What the device has of a balancer that the suite or another cluster made. */
function putBalancer(cluster: string): void {
  const id = { cluster, namespace: 'shop', name: 'web', uid: 'u1' };
  const member = { address: { family: 'ipv4', text: '10.1.2.3' }, port: 8080, weight: 5 };
  const balancer = {
    id,
    addresses: [{ family: 'ipv4', text: '10.0.9.10' }],
    listeners: [{ protocol: 'tcp', port: 80, members: [member, { ...member, port: 81, weight: 1 }] }],
    method: 'lc',
    affinityS: 60,
  };
  const objects = { ...example.readDevice(), [`vipnat_${cluster}_shop_web_u1`]: JSON.stringify(balancer) };
  writeFileSync(join(example.folder, 'device.json'), JSON.stringify(objects));
}

describe('vipnat device conformance', () => {
  test('prints a line for each check and counts them; nothing is left on the device', async () => {
    const { exitCode, stdout, stderr } = await run('conformance');
    expect(stdout).not.toMatch(/^failed/m);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    for (const { name } of listChecks())
      expect(stdout).toMatch(new RegExp(`^(?:passed   |not run  )${name}: \\S`, 'm'));
    expect(stdout).toMatch(/\n\d\d passed, 0 failed, \d+ not run\n$/);
    expect(example.readDevice()).toEqual({});
  });

  test('prints a report as JSON, of the checks that are asked for, and exits with 2 where one fails', async () => {
    putBalancer('prod');
    const wrong = join(example.folder, 'wrong.mjs');
    writeFileSync(
      wrong,
      `import { createDriver as create } from './driver.mjs';
       export function createDriver(settings, context) {
         const right = create(settings, context);
         return { ...right, remove: (id, signal) => id.name === 'never-there'
           ? Promise.resolve({ result: 'failed', why: 'there is none' }) : right.remove(id, signal) };
       }`,
    );
    const words = ['--json', '--only', 'remove-unknown', '--only', 'udp', '--only', 'drain'];
    const { exitCode, stdout } = await run('conformance', [...words, '--driver', wrong]);
    expect(exitCode).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ version: 1, device: 'edge', driver: wrong, capabilities: { udp: true, drain: false } },
      results: [
        {
          name: 'remove-unknown',
          outcome: 'failed',
          why: 'remove number 1 of what is not there is failed: there is none',
        },
        { name: 'udp', outcome: 'passed', why: null },
        { name: 'drain', outcome: 'not run', needs: ['drain', 'sessions', 'openSession'] },
      ],
      counts: { passed: 1, failed: 1, notRun: 1 },
      interruption: null,
    });
    expect(Object.keys(example.readDevice())).toEqual(['vipnat_prod_shop_web_u1']);
  });

  test('refuses a device that has balancers of the suite, unless it is to remove them', async () => {
    putBalancer('vipnat-conformance');
    const words = ['--only', 'ensure-list'];
    expect(await run('conformance', words)).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringMatching(/^vipnat: \[DEVICE_IN_USE\] .*conformance\/web.*--remove-leftovers\n$/),
    });
    expect(Object.keys(example.readDevice())).toHaveLength(1);
    expect(await run('conformance', [...words, '--remove-leftovers'])).toMatchObject({ exitCode: 0 });
    expect(example.readDevice()).toEqual({});
  });

  test('ends by a signal, and removes what it made before', async () => {
    let isSent = false;
    const { exitCode, stdout, stderr } = await run('conformance', [], () => {
      if (isSent) return;
      isSent = true;
      // When the next check has put something there.
      const timer = setInterval(() => {
        if (Object.keys(example.readDevice()).length === 0) return;
        clearInterval(timer);
        process.emit('SIGINT', 'SIGINT');
      }, 0);
    });
    expect(exitCode).toBe(130);
    expect(stdout).toMatch(/^ended early: it was interrupted\n\d+ passed, 0 failed, \d+ not run\n$/m);
    expect(stderr).toMatch(/^vipnat removes what the suite made/);
    expect(example.readDevice()).toEqual({});
  });

  test('says which check is meant by a wrong name', async () => {
    expect(await run('conformance', ['--only', 'ensure-lits'])).toEqual({
      exitCode: 78,
      stdout: '',
      stderr: 'vipnat: [CONFIG_INVALID] --only ensure-lits is not a check. Did you mean ensure-list?\n',
    });
  });
});

describe('vipnat device', () => {
  test('list prints what the device has of the cluster, and as JSON what plan takes', async () => {
    expect(await run('list')).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^no balancer/) });
    putBalancer('prod');
    putBalancer('stage');
    expect((await run('list')).stdout).toBe(
      [
        'BALANCER  ADDRESSES  PORT    METHOD    MEMBERS\n',
        'shop/web  10.0.9.10  tcp/80  lc, 60 s  10.1.2.3:8080 weight 5, 10.1.2.3:81\n',
      ].join(''),
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
      listeners: expect.arrayContaining([
        expect.objectContaining({
          protocol: 'udp',
          port: 443,
          members: [{ address: { family: 'ipv6', text: 'fd00::3' }, port: 8443, weight: 1 }],
        }),
      ]),
    });
    expect(example.readDevice()).toEqual({});
  });

  test('state prints each unit', async () => {
    expect(await run('state')).toEqual({
      exitCode: 0,
      stdout: expect.stringMatching(/^UNIT +ROLE +IN SYNC +WHY\n\S+device\.json +active +yes\n$/),
      stderr: '',
    });
  });

  test('tells with its code what the driver says of the device', async () => {
    rmSync(join(example.folder, 'device.json'));
    writeFileSync(join(example.folder, 'units'), '');
    const away = writeDevice(['cluster: prod', `units: [${join(example.folder, 'units', 'inside')}]`]);
    const { exitCode, stderr } = await run('list', ['--device', away]);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^vipnat: \[DEVICE_FAILED\] cannot read the device edge: unreachable: ENOTDIR/);
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
