import { beforeAll, describe, test, expect } from '@jest/globals';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync, openSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../support/network/own-folder.ts';
import { startDriverExample } from '../../support/documents/driver-example.ts';

const offline = ['plan', '--offline', '--vip', '10.0.0.50', '--proxy-mode', 'iptables'];

const folder = makeFolder('dist');
beforeAll(() => {
  execFileSync('scripts/build', { stdio: ['ignore', 'ignore', 'inherit'] });
  cpSync('dist', join(folder, 'dist'), { recursive: true });
});

/** Runs the copy, which has no node_modules anywhere above it. */
function run(args: readonly string[], nodeOptions: readonly string[] = []) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...nodeOptions, join(folder, 'dist/vipnat.js'), ...args],
    { encoding: 'utf8', cwd: folder, env: {} },
  );
  return { status, stdout, stderr };
}

describe('dist/, taken away from its checkout', () => {
  test("has package.json's version", () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    expect(run(['--version'])).toEqual({ status: 0, stdout: `${version}\n`, stderr: '' });
  });

  test('plans, and reads a YAML file', () => {
    expect(run(offline)).toMatchObject({ status: 0, stdout: expect.stringContaining('VIPNAT') });
    writeFileSync(join(folder, 'a.yaml'), 'vip: 10.0.0.50\ncolour: blue\n');
    expect(run(['plan', '--config', 'a.yaml'])).toMatchObject({
      status: 78,
      stderr: expect.stringMatching(
        /^vipnat: \[CONFIG_INVALID\] colour is not an option \(from a\.yaml line 2\)\. .*\n$/,
      ),
    });
  });

  test('prints manifests/', () => {
    expect(run(['manifest', 'daemonset', '--vip', '10.0.0.50'])).toEqual({
      ...{ status: 0, stdout: readFileSync('manifests/daemonset.yaml', 'utf8'), stderr: '' },
    });
  });

  test.each(['client-node', 'execa', 'netlink', 'prom-client', 'winston', 'yaml'])('loads %s', (name) => {
    const script = `require(${JSON.stringify(join(folder, 'dist/vendor', `${name}.js`))})`;
    expect(() => execFileSync(process.execPath, ['-e', script], { cwd: folder })).not.toThrow();
  });

  test('loads none of them for what needs none', () => {
    const preload = join(folder, 'loaded.cjs');
    const print = "Object.keys(require.cache).filter((file) => file.includes('/vendor/')).join()";
    writeFileSync(preload, `process.on('exit', () => process.stderr.write(${print}));`);
    expect(run([...offline, '--kubeconfig', '/etc/passwd'], ['--require', preload]).stderr).not.toContain(
      '/vendor/',
    );
  });

  test('loads a driver of devices from a file', async () => {
    const { end, driver, description } = await startDriverExample();
    const words = ['device', 'conformance', '--only', 'ensure-list', '--device', description];
    expect(run([...words, '--driver', driver])).toEqual({
      status: 0,
      stdout: expect.stringMatching(/^passed {3}ensure-list: .*\n1 passed, 0 failed, 0 not run\n$/),
      stderr: '',
    });
    end();
  });

  test('is refused by an older Node in one line', () => {
    const preload = join(folder, 'old.cjs');
    writeFileSync(
      preload,
      "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.8' } });",
    );
    expect(run(offline, ['--require', preload])).toEqual({
      status: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /^vipnat: \[NODE_TOO_OLD\] this is Node 18\.20\.8, and vipnat needs 22\.19 or newer\..*\n$/,
      ),
    });
  });

  test('is a plugin of kubectl on a Mac: what is about the API works, what needs a node says so', () => {
    const preload = join(folder, 'mac.cjs');
    writeFileSync(preload, "Object.defineProperty(process, 'platform', { value: 'darwin' });");
    const plugin = join(folder, 'kubectl-vipnat');
    symlinkSync(join(folder, 'dist/vipnat.js'), plugin);
    const ask = (...args: string[]) =>
      spawnSync(process.execPath, ['--require', preload, plugin, ...args], { encoding: 'utf8', env: {} });
    expect(ask('check', '--vip', '10.0.0.50')).toMatchObject({
      ...{ status: 1, stdout: '' },
      stderr: 'vipnat: [NOT_LINUX] kubectl vipnat check runs on a Linux node, and this is darwin\n',
    });
    expect(ask('services', '--help').stdout).toMatch(
      /^Usage: kubectl vipnat services .*\n {2}kubectl vipnat /s,
    );
    const access = "{server: 'https://127.0.0.1:1', proxy-url: 'http://127.0.0.1:1'}";
    writeFileSync(
      join(folder, 'a.conf'),
      `{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], clusters: [{name: a, cluster: ${access}}], users: [{name: a, user: {exec: {command: echo, apiVersion: v1}}}]}`,
    );
    expect(ask('status', '--all-nodes', '--kubeconfig', join(folder, 'a.conf')).stderr).toMatch(
      /the program echo of its user a (?:is not installed|printed no ExecCredential of v1)/,
    );
  });

  test('works with ready-made code that V8 refuses', () => {
    const spoiled = join(folder, 'dist/program.js.code');
    const code = readFileSync(spoiled);
    writeFileSync(spoiled, 'made by another V8');
    try {
      expect(run(['vrid', '10.0.0.50'])).toEqual({ status: 0, stdout: '51\n', stderr: '' });
    } finally {
      writeFileSync(spoiled, code);
    }
  });
});

/** Runs a line of bash in which `vipnat` is the copy; answers each program's status, as PIPESTATUS has it, and standard error. */
function runPipe(line: string) {
  const program = `vipnat() { ${process.execPath} ${join(folder, 'dist/vipnat.js')} "$@"; }`;
  const { stdout, stderr } = spawnSync(
    'bash',
    ['--norc', '-c', `${program}; ${line}; echo "\${PIPESTATUS[@]}"`],
    {
      ...{ encoding: 'utf8', env: { PATH: process.env['PATH'] }, timeout: 120_000 },
    },
  );
  return { statuses: stdout.trim().split('\n').at(-1), stderr };
}

describe('standard output', () => {
  test('whose reader went away ends the program, as SIGPIPE ends others, without a word', () => {
    expect(runPipe(`vipnat ${offline.join(' ')} | true`)).toEqual({ statuses: '141 0', stderr: '' });
  });

  test('that is read in part leaves the status as it is', () => {
    expect(runPipe(`vipnat ${offline.join(' ')} | head -1`)).toEqual({ statuses: '0 0', stderr: '' });
  });

  test('that is full ends the program with one line and status 1', () => {
    const { status, stderr } = spawnSync(process.execPath, [join(folder, 'dist/vipnat.js'), ...offline], {
      encoding: 'utf8',
      stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
      env: {},
    });
    expect(stderr).toMatch(/^vipnat: \[OUTPUT_NOT_WRITTEN\] standard output cannot be written: ENOSPC.*\n$/);
    expect(status).toBe(1);
  });
});
