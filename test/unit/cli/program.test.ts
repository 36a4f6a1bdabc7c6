import type { Environment } from '../../../config/load.ts';
import { parseCommandLine } from '../../../cli/program.ts';
import { describe, test, expect } from '@jest/globals';
import { readCall, checkCall, runHere } from '../../support/documents/call.ts';

describe('the program', () => {
  test.each([
    ['--version', /^from source\n$/],
    ['-v', /^from source\n$/],
    ['version', /^from source\n$/],
    ['plan --help', /^Usage: vipnat plan /],
    ['vrid 10.0.0.50', /^51\n$/],
  ])('%s is printed to standard output alone', async (line, words) => {
    const stdout: unknown = expect.stringMatching(words);
    expect(await runHere(line.split(' '))).toEqual({ exitCode: 0, stdout, stderr: '' });
  });

  test.each([
    ['vrid 10.0.0.300', /^vipnat: \[CONFIG_INVALID\] 10\.0\.0\.300 is .* Example: vipnat vrid 10.0.0.50\n$/],
    ['vrid 10.0.0.255', /^vipnat: \[CONFIG_INVALID\] .*--vrid.*\n$/],
    ['vrid', /^vipnat: \S+ vrid needs the virtual IP\. Example: vipnat vrid 10\.0\.0\.50\n$/],
    ['help --json', /^vipnat: \S+ --json is not an option of help\. See vipnat help --help\n$/],
    [
      'manifest daemonset --image A --namespace B',
      /^vipnat: \S+ no virtual IP .*\nvipnat: \S+ --image A .*\nvipnat: \S+ --namespace B .*\n$/,
    ],
    // Other commands than run have no log.
    ['plan --log-format json', /^vipnat: \[CONFIG_INVALID\] no virtual IP given/],
  ])('%s is refused, with nothing on standard output', async (line, words) => {
    const stderr: unknown = expect.stringMatching(words);
    expect(await runHere(line.split(' '))).toEqual({ exitCode: 78, stdout: '', stderr });
  });

  test('tells problems of words, variables, values and the command in one go, a line each, and exits 78', async () => {
    const { exitCode, stdout, stderr } = await runHere(
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
    ]);
  });

  test('reads the file that VIPNAT_CONFIG names, unless --config names another or it is empty', async () => {
    const environment = { VIPNAT_CONFIG: '/nonexistent/a.yaml' };
    expect((await runHere(['check'], environment)).stderr).toContain('/nonexistent/a.yaml cannot be read');
    expect((await runHere(['check', '--config', '/nonexistent/b.yaml'], environment)).stderr).toBe(
      'vipnat: [CONFIG_INVALID] --config /nonexistent/b.yaml cannot be read: there is no such file\n',
    );
    expect((await runHere(['check'], { VIPNAT_CONFIG: '' })).stderr).toMatch(/ no virtual IP given/);
  });

  test.each<[string, readonly string[], Environment]>([
    ['the flag', ['run', '--log-format', 'json'], {}],
    ['the variable', ['run'], { VIPNAT_LOG_FORMAT: 'json' }],
  ])('an agent that does not start says so in the format of its log, by %s', async (_, args, environment) => {
    const { exitCode, stderr } = await runHere(args, environment);
    expect(exitCode).toBe(78);
    expect(JSON.parse(stderr)).toMatchObject({ level: 'error', code: 'CONFIG_INVALID' });
  });
});

/** Words with blanks are written with `_`. */
const split = (line: string) => line.split(' ').map((word) => word.replaceAll('_', ' '));

describe('flags and words of a command are read', () => {
  test.each<[line: string, options: object]>([
    ['run', { once: false, dryRun: false }],
    ['run --config /etc/vipnat.yaml --dry-run', { once: false, dryRun: true }],
    ['plan', { format: 'commands', json: false, family: null, offline: false }],
    ['plan --offline --format=restore --family ipv6', { format: 'restore', offline: true, family: 'ipv6' }],
    ['plan --json', { json: true }],
    ['check', { json: false, color: 'auto' }],
    ['check --json --color always', { json: true, color: 'always' }],
    ['status', { json: false, watch: null }],
    ['status --watch --json', { json: true, watch: 1000 }],
    ['status --watch=5 --color=never', { watch: 5000, color: 'never' }],
    ['status --watch 5 --no-color', { watch: 5000, color: 'never' }],
    ['status --watch 0.5', { watch: 500 }],
    ['status --watch=500ms', { watch: 500 }],
    ['status --watch --watch=2s', { watch: 2000 }],
    ['doctor --json', { json: true, all: false, capture: 3500 }],
    ['doctor --all --capture 0s', { json: false, all: true, capture: 0 }],
    ['drain', { node: null, force: false, dryRun: false }],
    ['drain --force master-1', { node: 'master-1', force: true }],
    ['undrain master-1 --dry-run', { node: 'master-1', dryRun: true }],
    ['cleanup', { dryRun: false, json: false }],
    ['cleanup --vip 10.0.0.50 --dry-run --json', { dryRun: true, json: true }],
    ['vrid --json 10.0.0.50', { json: true }],
    ['manifest daemonset --least-privilege --namespace x', { namespace: 'x', leastPrivilege: true }],
    ['manifest static-pod --image vipnat:2', { kind: 'static-pod', image: 'vipnat:2' }],
    ['manifest --image=vipnat:2 static-pod', { kind: 'static-pod', image: 'vipnat:2' }],
    ['manifest services --pool a --pool b', { namespace: 'vipnat-system', pool: ['a', 'b'] }],
    ['manifest services', { image: null, injectGates: null, leastPrivilege: false }],
    ['keepalived', { interface: null, peers: [], vrid: [], priority: null, advert: 1000, output: null }],
    [
      'keepalived --peers 10.0.0.11,10.0.0.12 --peers=FD00::0:11 --vrid 51,52 --vrid 53',
      {
        peers: [{ text: '10.0.0.11' }, { text: '10.0.0.12' }, { family: 'ipv6', text: 'fd00::11' }],
        vrid: [51, 52, 53],
      },
    ],
    [
      'controller',
      {
        ...{ namespace: 'vipnat-system', defaultClass: false, defaultDevice: null },
        ...{ gate: [], driver: [], webhookPort: null },
      },
    ],
    ['balancer', { namespace: 'vipnat-system', nodeAddress: [], nodeProbePort: 10_256 }],
    ['balancer --node-probe-port off --node-address=', { nodeAddress: [], nodeProbePort: 0 }],
    [
      'balancer --node-address FD00::1,10.0.0.1 --node-address 10.0.0.2',
      { nodeAddress: ['fd00::1', '10.0.0.1', '10.0.0.2'] },
    ],
    ['services', { service: null, namespace: null, systemNamespace: null, json: false, watch: null }],
    ['services shop/web --json', { service: { namespace: 'shop', name: 'web' }, json: true }],
    ['services --watch --namespace lb', { watch: 2000, namespace: 'lb' }],
    ['seats', { action: 'list', node: '', systemNamespace: null }],
    ['seats drain worker-1 --json', { action: 'drain', node: 'worker-1', json: true }],
    [
      'seats --system-namespace lb undrain w1.example',
      { action: 'undrain', node: 'w1.example', systemNamespace: 'lb' },
    ],
    ['seats rebalance', { action: 'rebalance', node: '' }],
    ['device state --device a.yaml', { action: 'state', device: 'a.yaml', driver: null, json: false }],
  ])('%s', async (line, options) => {
    const call = await readCall(split(line));
    expect(call).toMatchObject({ row: { name: line.split(' ')[0] }, options, problems: [] });
  });

  test.each([
    [
      'services -n shop web -o json',
      { namespace: 'shop', json: true, service: { namespace: 'shop', name: 'web' } },
    ],
    ['services -A -oyaml', { namespace: null, json: true, systemNamespace: null }],
    ['services -w --output=json --system-namespace vip', { watch: 2000, json: true, systemNamespace: 'vip' }],
    ['status --vip 10.0.0.50 -w -o=json', { watch: 1000, json: true }],
    ['version -o json', { json: true }],
    // Its own.
    ['keepalived --vip 10.0.0.50 --output json', { output: 'json' }],
  ])('as kubectl has them: %s', async (line, options) => {
    expect(await readCall(split(line))).toMatchObject({ problems: [], options });
  });

  test('beside those of the configuration, which keep their texts', async () => {
    expect(
      await readCall(split('plan --vip 10.0.0.50 --config a.yaml --mode direct --vip 10.0.0.51')),
    ).toMatchObject({ flags: { vip: ['10.0.0.50', '10.0.0.51'], mode: 'direct' }, file: 'a.yaml' });
    expect(await readCall(['check', '--nonsense', '--mode', 'direct'])).toMatchObject({
      flags: { mode: 'direct' },
    });
  });
});

const kinds = 'daemonset, static-pod, keepalived, systemd, services';
const actions = 'configuration, conformance, list, plan, state';
const endpoints = 'the apiservers with --offline: add --endpoints 10.0.0.11:6443,10.0.0.12:6443';
const clusterIp = 'the ClusterIP with --offline: add --cluster-ip 10.96.0.1';
const noVip = 'no virtual IP given. Example: --vip 10.0.0.50:6443';
const offline = 'plan --offline --vip 10.0.0.50';

describe('what is wrong with a command line is told, all in one go', () => {
  test.each(
    Object.entries<string | readonly string[]>({
      'check --vip 10.0.0.50 --vpi 10.0.0.50 --offline --proxymode=x': [
        '--vpi is not an option of check. Did you mean --vip?',
        '--offline is not an option of check. See vipnat check --help',
        '--proxymode is not an option of check. Did you mean --proxy-mode?',
      ],
      // JSON has one spelling.
      'cleanup --format json': '--format is not an option of cleanup. Did you mean --json?',
      'run --vip 10.0.0.50 --format json': '--format is not an option of run. Did you mean --log-format?',
      'plan --vip 10.0.0.50 --format json': '--format json is spelled --json. Example: vipnat plan --json',
      'plan --vip 10.0.0.50 --json --format nft':
        '--json and --format exclude each other: each says how to print the plan. Leave one out',
      'plan --vip 10.0.0.50 --format restor':
        '--format restor is none of commands, restore, nft. Example: --format restore',
      'plan --vip 10.0.0.50 --family ip6': '--family ip6 is none of ipv4, ipv6. Example: --family ipv6',
      'plan now --vip 10.0.0.50': 'now is one word too many. See vipnat plan --help',
      'check --vip 10.0.0.50 --color=blue':
        '--color blue is none of auto, always, never. Example: --color always',
      'status --vip 10.0.0.50 --watch=x': '--watch x is not a number of seconds. Example: --watch=5',
      'status --vip 10.0.0.50 --watch now': '--watch now is not a number of seconds. Example: --watch=5',
      'status --vip 10.0.0.50 --watch=': '--watch "" is not a number of seconds. Example: --watch=5',
      'status --vip 10.0.0.50 --watch=0': '--watch 0 is not between 100ms and 3600s. Example: --watch=5',
      'status --vip 10.0.0.50 --watch=5 --watch=1e3':
        '--watch 1e3 is not a number of seconds. Example: --watch=5',
      'status --vip 10.0.0.50 --watch=86400':
        '--watch 86400 is not between 100ms and 3600s. Example: --watch=5',
      'status --vip 10.0.0.50 --watch -1': '--watch -1 is not a number of seconds. Example: --watch=5',
      'doctor --vip 10.0.0.50 --capture 5':
        '--capture 5 is not a duration with its unit, ms or s. Example: --capture 5s',
      'manifest --vip 10.0.0.50': `manifest needs a kind: ${kinds}. Example: vipnat manifest daemonset --vip 10.0.0.50`,
      'manifest static-pd --vip 10.0.0.50': `static-pd is none of ${kinds}. Example: vipnat manifest static-pod --vip 10.0.0.50`,
      'manifest daemonset static-pod --vip 10.0.0.50':
        'static-pod is one word too many. See vipnat manifest --help',
      'manifest --vpi 10.0.0.50 daemonset --vip 10.0.0.50':
        '--vpi is not an option of manifest. Did you mean --vip?',
      'seats drain': 'seats drain needs a node. Example: vipnat seats drain worker-1',
      'seats drain W_1': '"W 1" is not a name of a node. Example: vipnat seats drain worker-1',
      'seats rebalanse': 'rebalanse is none of drain, undrain, rebalance. Example: vipnat seats rebalance',
      'seats rebalance w1': 'w1 is one word too many. See vipnat seats --help',
      // What a user of kubectl types.
      'services -n shop web': [],
      'completion tcsh': 'vipnat completion tcsh is none of bash, zsh, fish. Example: vipnat completion bash',
      'services -n shop other/web': 'other/web is in another namespace than --namespace shop. Leave one out',
      'services -A -n shop': '--all-namespaces and --namespace exclude each other. Leave one out',
      'services -n Shop':
        '--namespace Shop is not a namespace: use 1 to 63 of a-z, 0-9 and -, without - at either end. Example: --namespace default',
      'services -o name': '-o is not an option of services. Did you mean --json?',
      'services get web': 'web is one word too many. See vipnat services --help',
      'status -o jsno': '-o is not an option of status. Did you mean --json?',
      'seats -n vipnat-system': '-n is not an option of seats. Did you mean --system-namespace?',
      'seats drian m1': 'drian is none of drain, undrain, rebalance. Example: vipnat seats drain worker-1',
      'manifest daemonst': `daemonst is none of ${kinds}. Example: vipnat manifest daemonset --vip 10.0.0.50`,
      'version --jsno': '--jsno is not an option of version. Did you mean --json?',
      'services shop/Web': 'shop/Web is not NAMESPACE/NAME. Example: vipnat services default/web',
      'services a/b/c': 'a/b/c is not NAMESPACE/NAME. Example: vipnat services default/web',
      device: `device needs what to do: ${actions}. Example: vipnat device state --device device.yaml`,
      'device paln --device a.yaml': `paln is none of ${actions}. Example: vipnat device plan --device device.yaml`,
      'device configuration --device a.yaml --unit 0': '--unit 0 is neither 1 nor 2. Example: --unit 1',
      'device list': 'no device given. Example: --device device.yaml',
      'device list edge --device a.yaml': 'edge is one word too many. See vipnat device --help',
      'device plan --device a.yaml': 'plan needs the wanted balancer. Example: --balancer web.yaml',
      'device list --device a.yaml --balancer web.yaml --remove-leftovers': [
        '--balancer is for vipnat device plan only. Leave it out',
        '--remove-leftovers is for vipnat device conformance only. Leave it out',
      ],
      'device conformance --device a.yaml --ports 80,81,80':
        '--ports 80,81,80 is not three different ports or more. Example: --ports 8080,8081,8443',
      'device conformance --device a.yaml --members ::1':
        '--members ::1 has to be addresses, one of IPv4. Example: --members 10.0.0.5',
      'device state --device a.yaml --drivr x': '--drivr is not an option of device. Did you mean --driver?',
      // One that is there and cannot be read is not called missing, too.
      run: noVip,
      check: noVip,
      'plan --offline --proxy-mode iptables': noVip,
      'run --vip x': '--vip x is not an IP address. Example: --vip 10.0.0.50:6443',
      cleanup: [],
      'run --vip 10.0.0.50 --once --dry-run':
        '--once and --dry-run exclude each other: one writes, the other only prints. Leave one out',
      'run --vip 10.0.0.50 --once': [],
      'run --vip 10.0.0.50 --dry-run': [],
      [offline]:
        "--offline needs kube-proxy's proxy mode, because it reads nothing: add --proxy-mode iptables",
      [`${offline} --proxy-mode iptables`]: [],
      [`${offline} --proxy-mode ipvs`]: `ipvs needs ${clusterIp}`,
      [`${offline} --proxy-mode ipvs --cluster-ip 10.96.0.1`]: [],
      [`${offline} --proxy-mode nftables`]: `nftables needs ${endpoints}`,
      [`${offline} --proxy-mode none`]: `balancing without kube-proxy needs ${endpoints}`,
      [`${offline} --proxy-mode none --endpoints 10.0.0.11:6443`]: [],
      [`${offline} --proxy-mode iptables --mode direct`]: `direct needs ${endpoints}`,
      [`${offline} --proxy-mode iptables --method lc`]: `the method lc needs ${endpoints}`,
      [`${offline} --proxy-mode ipvs --method rr`]: `the method rr needs ${endpoints}`,
      [`${offline} --proxy-mode ipvs --method hash --endpoints 10.0.0.11:6443`]: [],
      [`${offline} --proxy-mode ipvs --mode cluster-ip`]: `cluster-ip needs ${clusterIp}`,
      [`${offline} --proxy-mode ipvs --mode direct --endpoints 10.0.0.11:6443`]: [],
      [`${offline} --vip fd00::50 --proxy-mode ipvs --cluster-ip 10.96.0.1`]:
        'ipvs needs the ClusterIP with --offline: add --cluster-ip fd00:10:96::1',
      [`${offline} --proxy-mode ipvs --cluster-ip x`]:
        '--cluster-ip x is not an IP address. Example: --cluster-ip 10.96.0.1',
    }),
  )('%s', async (line, problems) => {
    expect((await checkCall(split(line))).problems).toEqual([problems].flat());
  });
});

test.each([
  ['pln', 'pln is not a command. Did you mean plan?'],
  [
    'examine',
    'examine is not a command. Commands: run, plan, check, status, doctor, drain, undrain, cleanup, vrid, manifest, keepalived, controller, balancer, services, seats, device, completion, help, version',
  ],
  ['--vip 10.0.0.50 plan', '--vip comes after the command. Example: vipnat plan --vip …'],
  ['--verbose', '--verbose is not an option. See vipnat --help'],
  ['plan --vip', '--vip needs a value. Example: --vip 10.0.0.50:6443'],
  ['plan --format', '--format needs a value'],
  ['get services', 'get is not a command. To look: vipnat status, vipnat services, vipnat seats'],
])('%s cannot be understood, and is refused with the way out', async (line, message) => {
  await expect(parseCommandLine(split(line), '1.2.3')).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    message,
  });
});
