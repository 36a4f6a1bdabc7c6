import { describe, expect, test } from '@jest/globals';
import { runProgram } from '../../../../cli/program/program.ts';
import { type Environment } from '../../../../config/environment.ts';

async function runWith(args: readonly string[], environment: Environment = {}) {
  let stdout = '';
  let stderr = '';
  const exitCode = await runProgram({
    args,
    environment,
    stdout: (text) => {
      stdout += text;
    },
    stderr: (text) => {
      stderr += text;
    },
  });
  return { exitCode, stdout, stderr };
}

describe('the program', () => {
  test('prints help and version to standard output and is done', async () => {
    for (const word of ['--version', 'version']) {
      expect(await runWith([word])).toEqual({ exitCode: 0, stdout: 'from source\n', stderr: '' });
    }
    expect(await runWith(['plan', '--help'])).toMatchObject({ exitCode: 0, stderr: '' });
  });

  test('prints the virtual_router_id of a VIP', async () => {
    expect(await runWith(['vrid', '10.0.0.50'])).toEqual({ exitCode: 0, stdout: '51\n', stderr: '' });
  });

  test('prints it as JSON where that is asked for', async () => {
    const { stdout } = await runWith(['vrid', '10.0.0.50', '--json']);
    expect(JSON.parse(stdout)).toEqual({ version: 1, vip: '10.0.0.50', vrid: 51 });
  });

  test('refuses to compute one for what is no address, and for one that has none', async () => {
    expect(await runWith(['vrid', '10.0.0.300'])).toEqual({
      exitCode: 78,
      stdout: '',
      stderr: 'vipnat: [CONFIG_INVALID] 10.0.0.300 is not an IP address. Example: vipnat vrid 10.0.0.50\n',
    });
    expect(await runWith(['vrid', '10.0.0.255'])).toMatchObject({
      exitCode: 78,
      stdout: '',
      stderr: expect.stringMatching(/^vipnat: \[CONFIG_INVALID\] .*--vrid.*\n$/),
    });
  });

  test('prints a manifest, and nothing for a wrong one', async () => {
    const words = ['--vip', '10.0.0.50', '--ca-file', '/nonexistent/ca.crt'];
    expect(await runWith(['manifest', 'static-pod', ...words])).toEqual({
      exitCode: 0,
      stdout: expect.stringMatching(
        /^# vipnat manifest static-pod --vip=10\.0\.0\.50:6443 [^]*\nkind: Pod\n/,
      ),
      stderr: '',
    });
    expect(await runWith(['manifest', 'daemonset', '--image', 'A', '--namespace', 'B'])).toEqual({
      exitCode: 78,
      stdout: '',
      stderr: expect.stringMatching(
        /^vipnat: \S+ no virtual IP .*\nvipnat: \S+ --image A .*\nvipnat: \S+ --namespace B .*\n$/,
      ),
    });
  });

  test('tells problems of words, variables, values and the command in one go, a line each, and exits 78', async () => {
    const { exitCode, stdout, stderr } = await runWith(
      ['run', '--once', '--dry-run', '--colour', '--mode', 'fast'],
      { VIPNAT_VPI: '10.0.0.50', VIPNAT_ENDPOINTS: 'm1' },
    );
    expect([exitCode, stdout]).toEqual([78, '']);
    expect(stderr.trimEnd().split('\n')).toEqual([
      'vipnat: [CONFIG_INVALID] --colour is not an option of run. See vipnat run --help',
      'vipnat: [CONFIG_INVALID] VIPNAT_VPI in the environment is not an option. Did you mean VIPNAT_VIP?',
      expect.stringMatching(/^vipnat: \S+ --mode fast is none of /),
      expect.stringMatching(/^vipnat: \S+ --endpoints m1 is not an IP address \(from VIPNAT_ENDPOINTS\)/),
      expect.stringMatching(/^vipnat: \S+ --once and --dry-run exclude each other/),
      'vipnat: [CONFIG_INVALID] no virtual IP given. Example: --vip 10.0.0.50:6443',
    ]);
  });

  test('reads the file that VIPNAT_CONFIG names, unless --config names another or it is empty', async () => {
    const environment = { VIPNAT_CONFIG: '/nonexistent/a.yaml' };
    expect((await runWith(['check'], environment)).stderr).toContain('/nonexistent/a.yaml cannot be read');
    expect((await runWith(['check', '--config', '/nonexistent/b.yaml'], environment)).stderr).toBe(
      'vipnat: [CONFIG_INVALID] --config /nonexistent/b.yaml cannot be read: there is no such file\n',
    );
    expect((await runWith(['check'], { VIPNAT_CONFIG: '' })).stderr).toMatch(
      /^vipnat: \S+ no virtual IP given/,
    );
  });

  test.each<[string, readonly string[], Environment]>([
    ['the flag', ['run', '--log-format', 'json'], {}],
    ['the variable', ['run'], { VIPNAT_LOG_FORMAT: 'json' }],
  ])('an agent that does not start says so in the format of its log, by %s', async (_, args, environment) => {
    const { exitCode, stderr } = await runWith(args, environment);
    expect(exitCode).toBe(78);
    expect(JSON.parse(stderr)).toMatchObject({ level: 'error', code: 'CONFIG_INVALID' });
  });

  test('other commands have no log: their errors are text', async () => {
    const { stderr } = await runWith(['plan', '--log-format', 'json']);
    expect(stderr).toMatch(/^vipnat: \[CONFIG_INVALID\] no virtual IP given/);
  });
});
