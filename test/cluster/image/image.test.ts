import { readFileSync } from 'node:fs';
import { buildImage, type BuiltImage } from '../../support/image/build.ts';
import { Sandbox } from '../../../tools/lab/machines/sandbox.ts';
import { type Machine, runShell } from '../../../tools/lab/machines/machine.ts';
import { Podman } from './podman.ts';
import { beforeAll, afterAll, describe, test, expect } from '@jest/globals';
import { NamespaceMachine } from '../../../tools/lab/machines/namespace-machine.ts';
import { ownImage } from '../../support/manifest/printing.ts';
import { readHealthCheck } from '../../support/image/health-check.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { listStartedTools, notInPods } from '../../support/image/started-tools.ts';
import { readComponents } from '../../support/image/sbom.ts';

/** Of one wait within a test. */
const maxWaitMs = 60_000;

const { version, description, optionalDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as {
  readonly version: string;
  readonly description: string;
  readonly optionalDependencies: Readonly<Record<string, string>>;
};

/** A base, packages from two registries and a build, when nothing is there yet. */
const buildLimitMs = 10 * 60_000;

let image: BuiltImage;
let sandbox: Sandbox | undefined;
let host: Machine;
let podman: Podman;

beforeAll(async () => {
  const started = performance.now();
  image = await buildImage();
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  process.stderr.write(`${image.report}, after ${seconds} s\n`);
}, buildLimitMs);

beforeAll(async () => {
  sandbox = await Sandbox.create();
  host = await NamespaceMachine.create(sandbox, 'host');
  podman = await Podman.create(host, image);
});

afterAll(async () => {
  await sandbox?.remove();
});

/** As whoever runs it without a word about rights, but with none at all. */
const nobody = ['--network=none', '--cap-drop=ALL', '--read-only', '--security-opt=no-new-privileges'];

const run = (...words: readonly string[]) => podman.run(nobody, image.name, words);

/** A shell's script in a container that may do nothing. */
const runScript = (script: string) =>
  podman.run([...nobody, '--entrypoint', 'sh'], image.name, ['-c', script]);

describe('the image', () => {
  test('is named as the manifests name it', () => {
    expect(image.name).toBe(ownImage);
  });

  test('says what it is, belongs to nobody, and has a health check', async () => {
    const [{ Config: config, Healthcheck: healthCheck }] = JSON.parse(
      await podman.ask(['image', 'inspect', image.name]),
    ) as readonly [{ readonly Config: object; readonly Healthcheck: object }];
    expect(healthCheck).toMatchObject({ Test: ['CMD', ...readHealthCheck()] });
    expect(config).toMatchObject({
      User: '65532:65532',
      Entrypoint: ['vipnat'],
      Labels: expect.objectContaining({
        'org.opencontainers.image.title': 'vipnat',
        'org.opencontainers.image.version': version,
        'org.opencontainers.image.revision': expect.stringMatching(/^[0-9a-f]{40}(?:-dirty)?$/),
        'org.opencontainers.image.licenses': 'Apache-2.0',
      }),
    });
    const [label = ''] = /(?<=description=")[^"]+/.exec(readFileSync('Dockerfile', 'utf8')) ?? [];
    expect(description.startsWith(label)).toBe(true);
  });

  test.each([
    [['--version'], version],
    [[], 'Usage: vipnat'],
    [['plan', '--offline', '--vip', '10.0.0.50', '--proxy-mode', 'iptables'], '-j KUBE-SVC-NPX46M4PTMTKRN6Y'],
    [['vrid', '10.0.0.50'], '51'],
    [['manifest', 'static-pod', '--vip', '10.0.0.50'], `image: ${ownImage}`],
  ])('runs %j without any right', async (words, output) => {
    const { exitCode, stdout, stderr } = await run(...words);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: expect.any(String) });
    expect(stdout).toContain(output);
  });

  test('says in one line that a command needs rights that it was not given', async () => {
    const { exitCode, stdout, stderr } = await run('check', '--vip', '10.0.0.50');
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toMatch(
      /^vipnat: \[TOOL_NOT_PERMITTED\] .*run as root or with CAP_NET_ADMIN and CAP_NET_RAW$/,
    );
  });

  test('ends a command that goes on for ever when it is told to', async () => {
    const rights = ['--network=none', '--user=0', '--cap-add=NET_ADMIN', '--cap-add=NET_RAW'];
    await podman.start('watch', rights, image.name, ['status', '--watch', '--vip', '10.0.0.50']);
    await waitFor(async () => (await podman.readLog('watch')) !== '', maxWaitMs);
    // podman kills what does not end in that time: that would be 137.
    await podman.ask(['stop', '--time', '30', 'watch']);
    expect(await podman.ask(['inspect', '--format', '{{.State.ExitCode}}', 'watch'])).toBe('143');
  });

  test('tells docker that no agent runs in its network', async () => {
    const flags = ['--network=host', '--entrypoint', ''];
    const { exitCode, stdout } = await podman.run(flags, image.name, readHealthCheck());
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: 'unhealthy: no agent runs here' });
  });

  test('takes rules away as docs/install.md has docker do it', async () => {
    await runShell(host, 'iptables-nft -t nat -N VIPNAT; iptables-nft -t nat -I PREROUTING -j VIPNAT');
    expect(await podman.run(readCleanupFlags(), image.name, ['cleanup'])).toMatchObject({ exitCode: 0 });
    expect(await runShell(host, 'iptables-nft-save')).not.toContain('VIPNAT');
  });

  test('has every tool that vipnat starts, and the pinned Node.js', async () => {
    const tools = listStartedTools().filter((tool) => !notInPods.includes(tool));
    const script = `for tool in ${tools.join(' ')}; do command -v $tool >/dev/null || echo no $tool; done; node --version`;
    const stdout = `v${optionalDependencies[`node-linux-${process.arch}`]}`;
    expect(await runScript(script)).toMatchObject({ stdout, stderr: '' });
  });

  test('has nft and iptables of the versions that docs/install.md names, which nodes can read', async () => {
    const [, nft, iptables] =
      /nft (\S+) and iptables (\S+) of Debian/.exec(readFileSync('docs/install.md', 'utf8')) ?? [];
    const programs = ['nft', 'iptables', 'ip6tables-legacy', '/opt/vipnat/nft/nft'];
    const { stdout } = await runScript(programs.map((name) => `${name} --version`).join('\n'));
    expect(stdout.match(/(?<=v)\d\S+/g)).toEqual([nft, iptables, iptables, '1.1.3']);
  });

  test('has nothing of what it was made with, and nothing that anybody but root may change', async () => {
    const { stdout } = await runScript(
      `for tool in npm git curl python3 gcc apt apt-get perl su; do command -v $tool; done
         ls /src /usr/local/lib/node_modules /etc/apt /var/lib/apt /var/cache/* 2>/dev/null
         find /opt /usr /etc /bin -xdev ! -type l ! -type c \\( -perm -002 -o ! -user root \\) -print
         find / -xdev -type f -perm /6000 -print 2>/dev/null`,
    );
    expect(stdout).toBe('');
  });
});

/** What people are told to run it with; podman takes docker's flags. */
function readCleanupFlags(): string[] {
  const [, words = ''] =
    /^docker run (.*) localhost\/vipnat:\S+ cleanup$/m.exec(readFileSync('docs/install.md', 'utf8')) ?? [];
  return words.split(' ');
}

describe('its SBOM', () => {
  test('is the one beside it, and valid by the schema of CycloneDX', async () => {
    const peers = readFileSync(image.sbom, 'utf8');
    const { stdout } = await runScript('cat /opt/vipnat/sbom.json');
    expect(stdout).toBe(peers.trim());
    expect(await readComponents(peers)).toContain(`vipnat ${version}`);
  });

  test('has what dpkg and the bundle say is installed, the pinned Node.js, and nothing else', async () => {
    const query = "dpkg-query --show --showformat '${Package} ${Version}\\n'";
    const second = 'cut -f 1,2 --output-delimiter " " /opt/vipnat/nft/packages';
    const { stdout } = await runScript(`cat /opt/vipnat/packages.json; echo ---; ${query}; ${second}`);
    const [packages = '', debian = ''] = stdout.split('---\n');
    const bundled = (
      JSON.parse(packages) as readonly { readonly name: string; readonly version: string }[]
    ).map((each) => `${each.name} ${each.version}`);
    const installed = debian.trim().split('\n');
    expect(installed.length).toBeGreaterThan(50);
    const node = `node ${optionalDependencies[`node-linux-${process.arch}`]}`;
    const all = [`vipnat ${version}`, node, ...bundled, ...installed];
    expect(await readComponents(readFileSync(image.sbom, 'utf8'))).toEqual(all.sort());
  });
});
