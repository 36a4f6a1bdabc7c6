import {
  type PodSpec,
  parse,
  print,
  type KubernetesObject,
  readWords,
} from '../../../support/manifest/printing.ts';
import { describe, test, expect } from '@jest/globals';
import { heartbeatProbe } from '../../../../lib/telemetry/log.ts';
import { mkdtempSync, writeFileSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { execa } from 'execa';

type Container = PodSpec['containers'][number];

async function findPod(name: string, ...words: readonly string[]): Promise<PodSpec> {
  const object = parse(await print(['services', ...words])).find(
    (one) => one.metadata.name === name && ['Deployment', 'DaemonSet'].includes(one.kind),
  );
  return (object as unknown as { spec: { template: { spec: PodSpec } } }).spec.template.spec;
}

const findBalancer = (...words: readonly string[]) => findPod('vipnat-balancer', ...words);

describe('what serves Services', () => {
  test.each([
    [
      ['--inject-gates'],
      ['MutatingAdmissionPolicy/vipnat-gates', 'MutatingAdmissionPolicyBinding/vipnat-gates'],
      [],
    ],
    [
      ['--inject-gates=webhook'],
      [
        ...['ClusterRole', 'ClusterRoleBinding', 'Role', 'RoleBinding'],
        ...['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding', 'Service'],
        'MutatingWebhookConfiguration',
      ].map((kind) => `${kind}/vipnat-webhook`),
      ['--webhook-port=10270'],
    ],
  ])('has what gives pods their gate: %j', async (words, added, args) => {
    const name = ({ kind, metadata }: KubernetesObject) => `${kind}/${metadata.name}`;
    const plain = parse(await print(['services'])).map(name);
    const printed = parse(await print(['services', ...words]));
    expect(printed.map(name).filter((one) => !plain.includes(one))).toEqual(added);
    const [controller] = (await findPod('vipnat-controller', ...words)).containers;
    expect(controller.args.filter((word: string) => word.startsWith('--webhook'))).toEqual(args);
  });

  test('asks the webhook about few pods, never about its own, and leaves what is trusted to the controller', async () => {
    const printed = parse(await print(['services', '--inject-gates=webhook', '--namespace', 'lb']));
    const { webhooks } = printed.find(({ kind }) => kind === 'MutatingWebhookConfiguration') as unknown as {
      webhooks: readonly { readonly clientConfig: object; readonly namespaceSelector: object }[];
    };
    expect(webhooks).toMatchObject([
      {
        ...{
          failurePolicy: 'Ignore',
          timeoutSeconds: 2,
          sideEffects: 'None',
          reinvocationPolicy: 'IfNeeded',
        },
        rules: [{ apiGroups: [''], operations: ['CREATE'], resources: ['pods'] }],
      },
    ]);
    expect(webhooks[0]?.clientConfig).toEqual({
      service: { name: 'vipnat-webhook', namespace: 'lb', path: '/gates', port: 443 },
    });
    expect(webhooks[0]?.namespaceSelector).toEqual({
      matchLabels: { 'vipnat.io/gates': 'enabled' },
      matchExpressions: [
        { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['kube-system', 'lb'] },
      ],
    });
  });

  test('is admitted by OpenShift as docs/install.md has it', async () => {
    const text = await print(['services']);
    expect(text).toMatch(/ - endpointslices\/restricted\n +verbs:\n +- create\n/);
    const account =
      /\nkind: DaemonSet\nmetadata:\n +name: \S+\n +namespace: (\S+)[^]*?serviceAccountName: (\S+)\n/;
    const accounts = [await print(['daemonset', '--vip=10.0.0.50']), text].map((one) => account.exec(one));
    const bound = readFileSync('docs/install.md', 'utf8').match(/-z \S+ -n \S+/g);
    expect(bound).toEqual(accounts.map((found) => `-z ${found?.[2]} -n ${found?.[1]}`));
  });

  test('is in another namespace where one is named: every object, account and argument', async () => {
    const text = await print(['services', '--namespace', 'lb']);
    expect(text.replace(/^# vipnat manifest .*/, '')).not.toContain('vipnat-system');
    // kubectl delete would take what else is there.
    expect(parse(text).map(({ kind }) => kind)).not.toContain('Namespace');
  });
});

describe("the controller's pods", () => {
  test('have no rights on their nodes, and the options that a controller takes', async () => {
    const words = ['--default-device=edge', '--gate=a.example/b', '--log-format=json', '--listen=off'];
    const { containers } = await findPod('vipnat-controller', ...words, '--run-dir=/srv/x');
    const { args, securityContext } = containers[0];
    const names = ['--default-device=edge', '--gate=a.example/b'];
    const options = [...names, '--namespace=vipnat-system', '--listen=off', '--log-format=json'];
    expect(args).toEqual(['controller', ...options]);
    expect(securityContext.capabilities).toEqual({ drop: ['ALL'] });
  });

  test('answer the kubelet also where pods have IPv6 addresses alone', async () => {
    const [controller] = (await findPod('vipnat-controller')).containers;
    expect(controller.args).toContain('--listen=[::]:10268');
  });

  test('are alive as long as the controller says so in its own pod: no client of its port can have them restarted', async () => {
    const isAlive = { exec: { command: [...heartbeatProbe] } };
    for (const words of [[], ['--listen', 'off']]) {
      const [controller] = (await findPod('vipnat-controller', ...words)).containers;
      expect(controller).toMatchObject({ startupProbe: isAlive, livenessProbe: isAlive });
      expect(controller['env']).toContainEqual({ name: 'VIPNAT_POD', value: 'deployment' });
    }
  });
});

describe("the balancer's pods", () => {
  test('have one folder of the node, by the same path everywhere', async () => {
    for (const [words, path] of [
      [[], '/run/vipnat-lb'],
      [['--run-dir', '/srv/lb/'], '/srv/lb'],
    ] as const) {
      const { containers, volumes } = await findBalancer(...words);
      expect(volumes).toContainEqual({ name: 'run', hostPath: { path, type: 'DirectoryOrCreate' } });
      for (const { volumeMounts } of containers)
        expect(volumeMounts).toContainEqual({ name: 'run', mountPath: path });
      const [balancer, keepalived] = containers as readonly Container[];
      expect(balancer?.args).toContain(`--run-dir=${path}`);
      const capabilities = { drop: ['ALL'], add: ['NET_ADMIN', 'NET_RAW'] };
      expect(balancer?.securityContext).toMatchObject({ capabilities });
      expect(keepalived?.command?.at(-1)).toBe(path);
    }
  });

  test.each<[string[], string | null, object | null]>([
    [[], '--listen=127.0.0.1:10269', { path: '/readyz', host: '127.0.0.1', port: 10_269 }],
    [
      ['--balancer-listen', '0.0.0.0:9300'],
      '--listen=0.0.0.0:9300',
      { path: '/readyz', host: '127.0.0.1', port: 9300 },
    ],
    [['--balancer-listen', '[::]:9300'], '--listen=[::]:9300', { path: '/readyz', host: '::1', port: 9300 }],
    [['--balancer-listen', 'off'], null, null],
  ])('serve metrics and their readiness: %j', async (words, listen, httpGet) => {
    const [balancer] = (await findBalancer(...words)).containers;
    const served = balancer.args.filter((word: string) => word.startsWith('--listen='));
    expect(served).toEqual(listen === null ? [] : [listen]);
    const probe = balancer['readinessProbe'] as { readonly httpGet: object } | undefined;
    expect(probe?.httpGet ?? null).toEqual(httpGet);
  });

  test.each([
    [[], []],
    [['--node-probe-port', '9100'], ['--node-probe-port=9100']],
    [['--node-probe-port', 'off'], ['--node-probe-port=off']],
  ])('ask other nodes at a port: %j', async (words, args) => {
    const [balancer] = (await findBalancer(...words)).containers;
    expect(balancer.args.filter((word: string) => word.startsWith('--node-probe-port'))).toEqual(args);
  });

  test('have drivers of their own from a ConfigMap, also before that is there', async () => {
    const driver = '--driver=nginx=/etc/vipnat/drivers/nginx.mjs';
    const { containers, volumes } = await findPod('vipnat-controller', driver);
    const [{ args, volumeMounts }] = containers;
    expect([args.includes(driver), volumeMounts[0]?.mountPath]).toEqual([true, '/etc/vipnat/drivers']);
    expect(volumes).toEqual([{ name: 'drivers', configMap: { name: 'vipnat-drivers', optional: true } }]);
  });

  test('have the images that are named', async () => {
    const images = ['--image', 'r.example/v:1', '--keepalived-image', 'r.example/k:2'];
    const { containers } = await findBalancer(...images);
    expect(containers.map(({ image }) => image)).toEqual(['r.example/v:1', 'r.example/k:2']);
  });

  test.each([
    [['--keepalived-image', 'A B'], /^--keepalived-image "A B" is not an image reference\./],
    [['--run-dir', '/a b'], /^--run-dir "\/a b" cannot be written into keepalived\.conf\. Example: /],
    [['--node-name', 'w1'], /^--node-name w1 would give every node of the DaemonSet the same name/],
    [['--advert', '300ms'], /^--advert is for vipnat manifest keepalived only\. Leave it out$/],
    [
      ['--inject-gates=hook'],
      /^--inject-gates hook is none of policy, webhook\. Example: --inject-gates=webhook$/,
    ],
    ...['nginx', 'haproxy=/own.mjs', 'a b=/own.mjs', 'nginx=/own'].map((text): [string[], RegExp] => [
      ['--driver', text],
      /^--driver .* is not NAME=MODULE with a name that no other driver has\. Example: --driver nginx=\/etc\/\S+$/,
    ]),
    [
      ['--driver', 'nginx=./nginx.mjs'],
      /^--driver \S+ is not a path in the controller's pod: it must begin with \/\./,
    ],
    [['--pool', '10.0.9'], /^--pool 10\.0\.9 is not a range of addresses\. Example: /],
    [
      ['--balancer-listen', 'eth0'],
      /^--balancer-listen eth0 .*\. Example: --balancer-listen 127\.0\.0\.1:10269$/,
    ],
    ...['0', '65536', 'of'].map((port): [string[], RegExp] => [
      ['--node-probe-port', port],
      /^--node-probe-port \w+ is not a whole number from 1 to 65535, and not off\. Example: --node-probe-port 10256$/,
    ]),
    [
      ['--balancer-listen', '0.0.0.0:10268'],
      /^--balancer-listen 0\.0\.0\.0:10268 has the port that the agent/,
    ],
  ])('cannot be printed for %j, which is said in one line', async (words, line) => {
    expect((await readWords(['services', ...words])).problems).toEqual([expect.stringMatching(line)]);
  });
});

describe('what starts keepalived', () => {
  const conf = 'keepalived.conf';

  /**
   * Runs it with a keepalived that prints its arguments, in a folder with these files. Answers that, how often it waited, and
   * what files are left. The balancer's new file comes while it waits.
   */
  async function start(files: readonly string[]): Promise<{ args: string; waits: number; left: string[] }> {
    const folder = mkdtempSync(join(tmpdir(), 'seats-'));
    try {
      const [, keepalived] = (await findBalancer('--run-dir', folder)).containers as readonly Container[];
      writeFileSync(join(folder, 'keepalived'), '#!/bin/sh\necho "$@"\n', { mode: 0o755 });
      writeFileSync(join(folder, 'waits'), '');
      const sleep = `#!/bin/sh\necho "$@" >>${folder}/waits\n>${folder}/${conf}\n`;
      writeFileSync(join(folder, 'sleep'), sleep, { mode: 0o755 });
      for (const file of files) writeFileSync(join(folder, file), '');
      const [program = '', ...words] = keepalived?.command ?? [];
      const { stdout } = await execa(program, words, {
        env: { PATH: `${folder}:${process.env['PATH'] ?? ''}` },
        // It would wait for its file as long as it is let.
        ...{ timeout: 60_000, killSignal: 'SIGKILL' },
      });
      const left = readdirSync(folder).filter((file) => file.includes('.'));
      const waits = readFileSync(join(folder, 'waits'), 'utf8').split('\n').length - 1;
      return { args: stdout.replaceAll(folder, 'DIR'), waits, left };
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  const args =
    '--vrrp --dont-fork --log-console --use-file DIR/keepalived.conf --pid DIR/keepalived.pid --vrrp_pid DIR/vrrp.pid';

  test.each(['keepalived.pid', 'vrrp.pid'])(
    'takes the file of one killed that left %s at once',
    async (pidFile) => {
      expect(await start([conf, pidFile])).toEqual({ args, waits: 0, left: [conf] });
    },
  );

  test.each([[[conf]], [[]]])('waits for a new file where one has ended in order: %j', async (files) => {
    expect(await start(files)).toEqual({ args, waits: 1, left: [conf] });
  });
});
