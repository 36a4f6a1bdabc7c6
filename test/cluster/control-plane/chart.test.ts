import { describe, expect, test } from '@jest/globals';
import { type KubernetesObject, parse, print } from '../../support/manifest/printing.ts';
import { chartFolder, helm, render, useHelm } from './helm.ts';
import { definitions } from '../../../lib/api/crds.ts';
import { describeWithPromtool, runPromtool } from '../../support/documents/promtool.ts';
import { makeFolder } from '../../support/network/own-folder.ts';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const vips = ['10.0.0.50:6443'];
const services = { enabled: true };

/** Labels that only Helm's objects have. */
const helmLabels = [
  ...['helm.sh/chart', 'app.kubernetes.io/instance', 'app.kubernetes.io/version'],
  'app.kubernetes.io/managed-by',
];

const nameWhole = ({ kind, metadata }: KubernetesObject) => `${kind}/${metadata.name}`;

/** An object without what the chart adds, and with arguments in no order. */
function strip(object: KubernetesObject): KubernetesObject {
  const copy = structuredClone(object) as KubernetesObject & {
    metadata: { labels: Record<string, string> };
    spec?: { template?: { spec: { containers: [{ args: string[] }] } } };
  };
  const labels = Object.entries(copy.metadata.labels).filter(([name]) => !helmLabels.includes(name));
  copy.metadata.labels = Object.fromEntries(labels);
  copy.spec?.template?.spec.containers[0].args.sort();
  return copy;
}

/** What Helm alone reads. */
function withoutPolicy(object: KubernetesObject): KubernetesObject {
  const { annotations, ...metadata } = object.metadata as KubernetesObject['metadata'] & {
    annotations?: object;
  };
  const isKept = annotations !== undefined && 'helm.sh/resource-policy' in annotations;
  return isKept ? { ...object, metadata } : object;
}

function findArgs(object: KubernetesObject): readonly string[] {
  const { spec } = object as { spec?: { template?: { spec: { containers: { args?: string[] }[] } } } };
  return spec?.template?.spec.containers.flatMap(({ args = [] }) => args) ?? [];
}

/** Pods as Prometheus discovers them: one target for each container. */
const pods = [
  ['vipnat', 'vipnat', '10.0.0.11', 'm1', 'vipnat-a'],
  ['vipnat', 'vipnat', 'fd00::12', 'm2', 'vipnat-b'],
  ['vipnat-controller', 'controller', '10.244.1.2', 'w1', 'controller-a'],
  ['vipnat-balancer', 'balancer', '10.0.0.21', 'w1', 'balancer-a'],
  ['vipnat-balancer', 'keepalived', '10.0.0.21', 'w1', 'balancer-a'],
] as const;

/** The targets that promtool makes of all pods by the relabelings of a PodMonitor: job, instance and address. */
function discover(folder: string, monitor: KubernetesObject): string[] {
  const of = '__meta_kubernetes_pod';
  const names = ['label_app_kubernetes_io_name', 'container_name', 'ip', 'node_name', 'name'];
  const static_configs = pods.map((pod) => ({
    targets: [pod[2]],
    labels: Object.fromEntries(names.map((name, index) => [`${of}_${name}`, pod[index]])),
  }));
  const { spec } = monitor as { spec?: { podMetricsEndpoints: { relabelings: object }[] } };
  return (spec?.podMetricsEndpoints ?? []).flatMap(({ relabelings }) => {
    const text = JSON.stringify(relabelings).replaceAll(/"(source|target)L/g, '"$1_l');
    const jobs = [{ job_name: 'x', static_configs, relabel_configs: JSON.parse(text) as object }];
    const file = join(folder, 'prometheus.yaml');
    writeFileSync(file, JSON.stringify({ scrape_configs: jobs }));
    const { output } = runPromtool(['check', 'service-discovery', '--timeout=1s', file, 'x']);
    const targets = JSON.parse(output) as { labels: Record<string, string> }[];
    return targets
      .filter(({ labels }) => 'job' in labels)
      .map(({ labels: { job, instance, __address__: address } }) => `${job} ${instance} ${address}`);
  });
}

describe('the chart', () => {
  useHelm();

  test('is found right by helm lint', async () => {
    for (const values of [{}, { vips }, { services }])
      expect(await helm(['lint', '--strict', chartFolder], values)).toMatchObject({ exitCode: 0 });
  });

  test('makes no namespace that Helm makes, and keeps one that it makes, with what others put there', async () => {
    const listNamespaces = async (namespace: string) =>
      (await render({ services }, namespace)).filter(({ kind }) => kind === 'Namespace');
    expect(await listNamespaces('vipnat-system')).toEqual([]);
    expect(await listNamespaces('kube-system')).toMatchObject([
      { metadata: { name: 'vipnat-system', annotations: { 'helm.sh/resource-policy': 'keep' } } },
    ]);
  });

  test('gives each program its own values', async () => {
    const pod = (name: string) => ({
      ...{ resources: { limits: { memory: name } }, tolerations: [{ key: name, operator: 'Exists' }] },
      ...{ affinity: { podAntiAffinity: {} }, nodeSelector: { role: name }, priorityClassName: name },
      ...{ podLabels: { team: name }, podAnnotations: { b: name }, extraArgs: [`--x=${name}`] },
    });
    const own = { controller: pod('controller'), balancer: pod('balancer') };
    const digest = `sha256:${'a'.repeat(64)}`;
    const objects = await render({ services: { ...services, ...own }, image: { digest } });
    const find = (kind: string) => objects.find((object) => object.kind === kind);
    for (const [kind, name] of Object.entries({ Deployment: 'controller', DaemonSet: 'balancer' })) {
      const { resources, podLabels, podAnnotations, extraArgs, ...placed } = pod(name);
      const args = expect.arrayContaining(extraArgs);
      const container = { name, image: `localhost/vipnat@${digest}`, resources, args };
      const spec = { ...placed, containers: expect.arrayContaining([expect.objectContaining(container)]) };
      const metadata = { labels: podLabels, annotations: podAnnotations };
      expect(find(kind)).toMatchObject({ spec: { template: { metadata, spec } } });
    }
  });

  const options = {
    ...{ mode: 'direct', endpoints: ['10.0.0.11:6443', '10.0.0.12:6443'], probeInterval: '20ms' },
    ...{ caFile: '/etc/kubernetes/pki/ca.crt', kubeconfig: '/etc/kubernetes/admin.conf' },
    ...{ stateDir: '/srv/vip $(nat)/', runDir: '/run/x' },
  };
  const image = { repository: 'host:5000/a/vipnat', tag: '2' };
  const words = [
    ...['--mode=direct', '--endpoints=10.0.0.11:6443,10.0.0.12:6443', '--probe-interval=20ms'],
    ...['--ca-file=/etc/kubernetes/pki/ca.crt', '--kubeconfig=/etc/kubernetes/admin.conf'],
    ...['--state-dir=/srv/vip $(nat)/', '--run-dir=/run/x'],
  ];

  const bounded = '--least-privilege';
  test.each([
    ['its defaults', {}, []],
    ['least privilege', { leastPrivilege: true }, [bounded]],
    ['another image', { image }, ['--image=host:5000/a/vipnat:2']],
    ['options', { options }, words],
    ['nothing served', { options: { listen: 'off' } }, ['--listen=off']],
    ['served everywhere', { options: { listen: '0.0.0.0:9000' } }, ['--listen=0.0.0.0:9000']],
    ['served at the last port', { options: { listen: '10.0.0.11:65535' } }, ['--listen=10.0.0.11:65535']],
    ['served at an IPv6 address', { options: { listen: '[fd00::11]:9000' } }, ['--listen=[fd00::11]:9000']],
    ['its own choice', { leastPrivilege: true, options: { sysctls: 'set' } }, [bounded, '--sysctls=set']],
  ])('comes to what vipnat manifest prints: %s', async (_, values, flags) => {
    const printed = parse(await print(['daemonset', '--vip', '10.0.0.50', ...flags]));
    expect((await render({ vips, ...values })).map(strip)).toEqual(printed.map(strip));
  });

  test.each([
    ['alone', {}, []],
    ['for Services without a class', { services: { defaultClass: true } }, ['--default-class']],
    ['for Services of others', { services: { defaultDevice: 'edge' } }, ['--default-device=edge']],
    ['that opens gates of others', { services: { gates: ['a.example/b'] } }, ['--gate=a.example/b']],
    [
      'with drivers of its own',
      { services: { drivers: ['nginx=/etc/vipnat/drivers/nginx.mjs'] } },
      ['--driver=nginx=/etc/vipnat/drivers/nginx.mjs'],
    ],
    ['with gates by a policy', { services: { injectGates: 'policy' } }, ['--inject-gates']],
    ['with gates by a webhook', { services: { injectGates: 'webhook' } }, ['--inject-gates=webhook']],
    ['with gates of this API', { services: { injectGates: true } }, ['--inject-gates=webhook']],
    [
      'with other images',
      { image, services: { keepalivedImage: 'host:5000/keepalived:3' } },
      ['--image=host:5000/a/vipnat:2', '--keepalived-image=host:5000/keepalived:3'],
    ],
    ["beside the API's virtual IP", { vips }, ['--vip', '10.0.0.50']],
    ...[9100, 'off'].map(
      (port) =>
        [
          `with balancers that ask nodes at ${port}`,
          { services: { nodeProbePort: port } },
          ['--node-probe-port', String(port)],
        ] as const,
    ),
    ...['0.0.0.0:9300', '[::]:9300', '[fd00::7]:9300', 'off'].map(
      (listen) =>
        [
          `with balancers that serve at ${listen}`,
          { services: { balancerListen: listen } },
          ['--balancer-listen', listen],
        ] as const,
    ),
  ])(
    'comes to what vipnat manifest services prints: %s',
    async (_, { services = {}, ...values }: { services?: object; vips?: string[] }, flags) => {
      const isOfServices = ({ metadata }: KubernetesObject) =>
        metadata.name === 'vipnat-system' || /^vipnat-/.test(metadata.name);
      const printed = parse(await print(['services', ...flags])).filter(isOfServices);
      const given = { ...values, services: { enabled: true, ...services } };
      const rendered = (await render(given)).map(withoutPolicy);
      const sort = (objects: readonly KubernetesObject[]) =>
        objects.map(strip).sort((one, other) => nameWhole(one).localeCompare(nameWhole(other)));
      expect(sort(rendered.filter(isOfServices))).toEqual(sort(printed));
      expect(rendered.length).toBe(printed.length + (values.vips === undefined ? 0 : 4));
    },
  );

  test.each([false, true])('says what to do next, with least privilege: %s', async (leastPrivilege) => {
    const words = ['install', 'vipnat', chartFolder, '--namespace=kube-system', '--dry-run=client'];
    const { stdout } = await helm(words, { vips, leastPrivilege });
    expect(stdout).toContain('kubectl -n kube-system rollout status daemonset/vipnat');
    expect(stdout.includes('sysctl -w')).toBe(leastPrivilege);
  });

  test('has the pool that is asked for, which outlives it', async () => {
    const pool = ['10.0.9.9-10.0.9.10', 'fd00::9-fd00::10'];
    const objects = await render({ services: { ...services, pool } });
    const metadata = { name: 'default', annotations: { 'helm.sh/resource-policy': 'keep' } };
    expect(objects.filter(({ kind }) => kind === 'AddressPool')).toMatchObject([
      { metadata, spec: { addresses: pool } },
    ]);
  });

  test('has other values where they belong', async () => {
    const given = {
      ...{ resources: { limits: { memory: '256Mi' } }, seLinuxOptions: { type: 'container_host_t' } },
      ...{ tolerations: [{ key: 'x', operator: 'Exists' }], affinity: { podAntiAffinity: {} } },
      ...{ nodeSelector: { 'kubernetes.io/os': 'linux' }, priorityClassName: 'high' },
      imagePullSecrets: [{ name: 'registry' }],
    };
    const objects = await render({
      ...{ vips: ['10.0.0.50', 'fd00::50'], ...given, extraArgs: ['--new=$HOME'] },
      ...{ image: { pullPolicy: 'Always' }, serviceAccount: { create: false, name: 'mine' } },
      ...{ podLabels: { team: 'a' }, podAnnotations: { b: 'c' }, updateStrategy: { type: 'OnDelete' } },
    });
    expect(objects.map(({ kind }) => kind)).toEqual(['Role', 'RoleBinding', 'DaemonSet']);
    const { resources, seLinuxOptions, ...placed } = given;
    const labels = { team: 'a', 'app.kubernetes.io/name': 'vipnat' };
    expect(objects[1]).toMatchObject({
      subjects: [{ kind: 'ServiceAccount', name: 'mine', namespace: 'kube-system' }],
    });
    const args = ['run', '--vip=10.0.0.50', '--vip=fd00::50', '--new=$$HOME'];
    const securityContext = { seLinuxOptions };
    const containers = [{ imagePullPolicy: 'Always', args, resources, securityContext }];
    const spec = { ...placed, serviceAccountName: 'mine', containers };
    expect(objects[2]).toMatchObject({
      spec: {
        updateStrategy: { type: 'OnDelete' },
        selector: { matchLabels: { 'app.kubernetes.io/name': 'vipnat' } },
        template: { metadata: { labels, annotations: { b: 'c' } }, spec },
      },
    });
  });

  const prometheus = { podMonitor: { enabled: true } };

  test('has alerts and dashboards whole, and a policy for controllers, each with its labels', async () => {
    const rule = { enabled: true, additionalLabels: { release: 'p' }, runbookBase: 'https://a.example/' };
    const given = { prometheus: { prometheusRule: rule }, dashboards: { enabled: true } };
    const objects = await render({ vips, services, ...given, networkPolicy: { enabled: true } });
    const find = (name: string) => objects.filter(({ kind }) => kind === name) as never[];
    const alerts = readFileSync('manifests/alerts.yaml', 'utf8').replaceAll(/url: /g, '$&https://a.example/');
    const [spec] = parse(alerts);
    expect(find('PrometheusRule')).toMatchObject([{ metadata: { labels: { release: 'p' } }, spec }]);
    const boards = find('ConfigMap').filter(({ metadata: { name } }) => /dashboard/.test(name));
    expect(boards).toMatchObject(
      ['api', 'services', 'controllers'].map((name) => {
        const text = readFileSync(`manifests/dashboards/${name}.json`, 'utf8').trimEnd();
        const metadata = { name: `vipnat-dashboard-${name}`, labels: { grafana_dashboard: '1' } };
        return { metadata, data: { [`vipnat-${name}.json`]: text } };
      }),
    );
    const ports = [{ ports: [{ port: 10_268 }] }];
    const podSelector = { matchLabels: { 'app.kubernetes.io/name': 'vipnat-controller' } };
    expect(find('NetworkPolicy')).toMatchObject([{ spec: { podSelector, ingress: ports } }]);
  });

  describeWithPromtool('with PodMonitors', () => {
    const folder = makeFolder('monitors');

    test('leads Prometheus to where each program listens, by the job and the instance of the dashboards', async () => {
      const own = { balancerListen: '0.0.0.0:9300' };
      const objects = await render({ vips, prometheus, services: { ...services, ...own } });
      const args = objects.flatMap((one) => findArgs(one).filter((word) => word.startsWith('--listen=')));
      expect(args).toEqual(['--listen=0.0.0.0:10268', '--listen=0.0.0.0:9300', '--listen=[::]:10268']);
      const found = objects
        .filter(({ kind }) => kind === 'PodMonitor')
        .flatMap((monitor) => discover(folder, monitor));
      expect(found).toEqual([
        ...['vipnat m1 10.0.0.11:10268', 'vipnat m2 [fd00::12]:10268'],
        'vipnat-services controller-a 10.244.1.2:10268',
        'vipnat-services w1 10.0.0.21:9300',
      ]);
    });
  });

  test.each([
    [{}, "set vips, for example --set 'vips={10.0.0.50}', or services.enabled=true"],
    [{ vips: '10.0.0.50' }, "at '/vips': got string, want array"],
    [{ vips: ['apiserver.example'] }, "at '/vips/0': 'apiserver.example' does not match pattern"],
    [{ vips: ['10.0.0.500'] }, 'vips: 10.0.0.500 is not an address such as 10.0.0.50'],
    [{ vips: ['fd00::1::2'] }, 'vips: fd00::1::2 is not an address such as'],
    [{ vips: ['10.0.0.50:99999'] }, 'vips: 10.0.0.50:99999 is not an address'],
    ...['127.0.0.1', '0.0.0.0:6443', '[fe80::1]:6443', 'FF02::12', '::1', '224.0.0.18'].map(
      (text) => [{ vips: [text] }, `vips: ${text} is not an address of one host`] as const,
    ),
    [{ vips: ['10.0.0.50', '10.0.0.50:6443'] }, 'vips: 10.0.0.50:6443 is given twice'],
    [{ vips, options: { mode: 'ipvs' } }, "at '/options/mode': value must be one of 'auto'"],
    [{ vips, options: { method: 'lc', mode: 'cluster-ip' } }, 'options.method=lc needs options.mode=direct'],
    [{ vips, options: { proxymode: 'ipvs' } }, "additional properties 'proxymode' not allowed"],
    [{ vips, options: { probeInterval: 'abc' } }, 'probeInterval: abc is not a duration such as 250ms'],
    [{ vips, options: { probeTimeout: '19ms' } }, 'probeTimeout: 19ms is not a duration'],
    [{ vips, options: { listen: '10.0.0.1:70000' } }, 'listen: 10.0.0.1:70000 is not an address and a port'],
    [{ vips, options: { listen: '10.0.0.50:6443' } }, 'options.listen: 10.0.0.50:6443 is one of vips'],
    [{ vips, options: { caFile: '/a', kubeconfig: '/a' } }, 'are the same path, /a'],
    [{ vips, options: { stateDir: '/run/vipnat/' } }, 'runDir and options.stateDir are the same path'],
    [{ vips, options: { runDir: 'x' } }, 'options.runDir: x is not a path'],
    [{ vips, options: { endpoints: '10.0.0.1:1, 10.0.0.2' } }, 'endpoints: 10.0.0.2 is not an address and'],
    [{ vips, options: { endpoints: ['10.0.0.50:1'] } }, 'endpoints: 10.0.0.50:1 is an address of vips'],
    [{ vips, options: { clusterIp: ['10.96.0.1', '10.96.0.999'] } }, '10.96.0.999 is not an address'],
    [{ vips, options: { clusterIp: 'fd00::1' } }, 'fd00::1 is of an address family that vips has not'],
    [{ services: { ...services, balancerListen: '[::]:10268' } }, 'have the same port, 10268'],
    [{ vips, services: { pool: ['web'] } }, "at '/services/pool/0': 'web' does not match pattern"],
    [{ vips, services: { pool: ['10.0.9.0/24'] } }, 'services.pool needs services.enabled=true'],
    [{ vips, services: { balancer: { nodeSelector: { a: 'b' } } } }, 'nodeSelector needs services.enabled'],
    [{ services: { ...services, pool: ['10.0.9.1-10.0.9.900'] } }, 'is not a range such as 10.0.9.10-'],
    ...['10.0.9.10-10.0.9.9', 'fd00::10-fd00::9'].map(
      (range) => [{ services: { ...services, pool: [range] } }, `${range} ends before it begins`] as const,
    ),
    [{ vips, prometheus, options: { listen: 'off' } }, 'no Prometheus reaches options.listen=off. Leave'],
    [
      { services: { ...services, balancerListen: '[::1]:9' }, prometheus },
      'reaches services.balancerListen=',
    ],
    [{ vips, networkPolicy: { enabled: true } }, 'networkPolicy is about controllers, and needs services.en'],
    [{ services, nodeSelector: { a: 'b' } }, 'set services.controller.nodeSelector and services.balancer.'],
    [{ vips, leastPriviledge: true }, "additional properties 'leastPriviledge' not allowed"],
    [{ services, leastPrivilege: true }, 'runs only with vips. Set vips\n'],
    [{ services, serviceAccount: { name: 'x' } }, 'serviceAccount is a value of the agent'],
  ])('refuses %j', async (values, complaint) => {
    const { exitCode, stdout, stderr } = await helm(['template', chartFolder], values);
    expect({ exitCode, stdout, stderr: `${stderr}\n` }).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringContaining(complaint),
    });
  });

  test('refuses Services of a cluster whose API cannot take their definitions, and has none for the agent alone', async () => {
    const template = (words: readonly string[], values: object) =>
      helm(['template', chartFolder, '--include-crds', ...words], values);
    const { stderr } = await template(['--kube-version', '1.30.0'], { services });
    expect(stderr).toContain('services.enabled needs Kubernetes 1.31 or later, and this is v1.30.0');
    // helm upgrade installs no definitions, so the cluster has to have each.
    const list = definitions as readonly { spec: { names: { kind: string } } }[];
    const kinds = list.map(({ spec }) => `vipnat.io/v1alpha1/${spec.names.kind}`);
    const enable = (known: readonly string[]) =>
      template(['--is-upgrade', `--api-versions=${known.join(',')}`], { services });
    const complaint = /no definition of \w+, and helm upgrade installs none\. First run: helm show crds/;
    for (const known of [kinds.slice(1), kinds.slice(0, -1)])
      expect((await enable(known)).stderr).toMatch(complaint);
    expect(await enable(kinds)).toMatchObject({ exitCode: 0 });
    const alone = await template(['--kube-version', '1.21.0'], { vips });
    expect(alone).toMatchObject({
      exitCode: 0,
      stdout: expect.not.stringContaining('CustomResourceDefinition'),
    });
  });
});
