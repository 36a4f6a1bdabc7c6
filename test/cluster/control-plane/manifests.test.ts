import { masters } from '../../support/network/layout.ts';
import { useHelm, render, helmOn, chartFolder } from './helm.ts';
import { useLab } from './with-lab.ts';
import { printOn, toMirrorPod, dryRun } from './apply.ts';
import { describe, test, expect, beforeAll } from '@jest/globals';
import { parse, type KubernetesObject, findPodSpec } from '../../support/manifest/printing.ts';
import { testServiceAccount } from './service-account.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { startPod, execInAgentPod } from './run-pod.ts';
import { runShell } from '../../../tools/lab/machines/machine.ts';
import { vipnatCommand, defaultAgentArguments } from '../../../tools/lab/components/agent.ts';

const changeMs = 30_000;
const names = masters.map(({ name }) => name);

useHelm();
const lab = useLab({ proxyMode: 'none' });

const print = (...words: readonly string[]) => printOn(lab(), ...words);

const pod = {
  ...{ resources: { limits: { memory: '300Mi' } }, tolerations: [{ key: 'edge', operator: 'Exists' }] },
  ...{ affinity: { podAntiAffinity: {} }, nodeSelector: { role: 'edge' } },
  ...{ podLabels: { team: 'network' }, podAnnotations: { note: 'of the network' } },
};

/** Of the agent alone, of Services alone, and of both together. */
const chartValues: readonly object[] = [
  {},
  pod,
  { extraArgs: ['--log-level=debug'], image: { tag: '2', pullPolicy: 'Always' } },
  { image: { digest: `sha256:${'a'.repeat(64)}` }, imagePullSecrets: [{ name: 'registry' }] },
  { updateStrategy: { type: 'OnDelete' }, seLinuxOptions: { type: 'container_host_t' } },
  { serviceAccount: { name: 'mine', annotations: { note: 'of the account' } } },
  { services: { enabled: true } },
  { services: { enabled: true, pool: ['10.0.9.10-10.0.9.99', 'fd00:9::/120'], defaultClass: true } },
  {
    services: { enabled: true, defaultDevice: 'edge', gates: ['example.com/ready'], injectGates: 'webhook' },
  },
  {
    services: { enabled: true, injectGates: 'policy', keepalivedImage: 'registry.example/keepalived:2.2.7' },
  },
  { services: { enabled: true, balancerListen: '0.0.0.0:9300', nodeProbePort: 9301 } },
  { services: { enabled: true, balancerListen: 'off', nodeProbePort: 'off' } },
  { services: { enabled: true, controller: pod, balancer: { ...pod, extraArgs: ['--log-level=debug'] } } },
  {
    services: { enabled: true, controller: { priorityClassName: 'system-cluster-critical' } },
    image: { pullPolicy: 'Never' },
  },
];

/** What the objects have to have: all texts and numbers but those that choose something. */
function listLeaves(values: unknown): string[] {
  if (typeof values === 'object' && values !== null) return Object.values(values).flatMap(listLeaves);
  const isChoice = ['policy', 'webhook', 'off', true, false].includes(values as string);
  return isChoice ? [] : [String(values).replace(/^0\.0\.0\.0:/, '')];
}

const keepalived = [...['keepalived', '--peers', masters.map(({ addresses }) => addresses.ipv4).join()]];

describe('kube-apiserver', () => {
  test.each([
    [['daemonset']],
    [['daemonset', '--least-privilege', '--ca-file', '/etc/kubernetes/pki/ca.crt']],
    [['static-pod', '--kubeconfig', '/etc/kubernetes/admin.conf']],
    [keepalived],
  ])('accepts what vipnat manifest prints: %j', async (words) => {
    const objects = parse(await print(...words));
    for (const object of objects) {
      const created = object.kind === 'Pod' ? toMirrorPod(object, 'm1') : object;
      expect(await dryRun(lab(), created)).toMatchObject({ code: 201, object: { kind: object.kind } });
    }
  });

  test('has the chart in a namespace that Helm makes, and what others put there outlives Services and the release', async () => {
    const namespace = 'vipnat-system';
    const vips = [lab().vip];
    const services = { enabled: true, pool: ['10.0.9.10-10.0.9.99'] };
    const run = async (words: readonly string[], values: object | null = null) => {
      expect(await helmOn(lab(), words, values, namespace)).toMatchObject({ exitCode: 0 });
    };
    await run(['install', 'vipnat', chartFolder, '--create-namespace'], { vips, services });
    const secrets = `/api/v1/namespaces/${namespace}/secrets`;
    const object = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'vipnat-devices' } };
    expect(await lab().api.ask({ method: 'POST', path: secrets, object })).toMatchObject({ code: 201 });
    await run(['upgrade', 'vipnat', chartFolder], { vips });
    await run(['upgrade', 'vipnat', chartFolder], { vips, services });
    await run(['rollback', 'vipnat', '2']);
    await run(['uninstall', 'vipnat']);
    const path = `/apis/apps/v1/namespaces/${namespace}/daemonsets/vipnat`;
    expect(await lab().api.ask({ method: 'GET', path })).toMatchObject({ code: 404 });
    const pool = '/apis/vipnat.io/v1alpha1/addresspools/default';
    for (const path of [`${secrets}/vipnat-devices`, pool])
      expect(await lab().api.ask({ method: 'GET', path })).toMatchObject({ code: 200 });
    await lab().api.ask({ method: 'DELETE', path: pool });
  });

  test.each(
    chartValues.flatMap((own) => [
      own,
      { ...own, vips: ['10.0.0.50'], leastPrivilege: true, options: { method: 'lc' } },
    ]),
  )('accepts what the chart comes to, which has every value: %j', async (values) => {
    // Definitions and the namespace stayed of the test before.
    const objects = await render(
      'vips' in values || 'services' in values ? values : { vips: ['10.0.0.50'], ...values },
    );
    const text = JSON.stringify(objects);
    for (const value of listLeaves(values)) expect(text).toContain(value);
    for (const object of objects.filter(({ kind }) => kind !== 'Namespace'))
      expect(await dryRun(lab(), object)).toMatchObject({ code: 201, object: { kind: object.kind } });
  });

  test('refuses a field that it does not know, a value that it does not take, and a static pod with an account', async () => {
    const text = await print('daemonset');
    const dryRunOf = (changed: string) => dryRun(lab(), parse(changed).at(-1) as KubernetesObject);
    expect(await dryRunOf(text.replace('hostNetwork:', 'hostNetwerk:'))).toMatchObject({
      code: 400,
      object: { message: expect.stringContaining('unknown field "spec.template.spec.hostNetwerk"') },
    });
    expect(await dryRunOf(text.replace('type: FileOrCreate', 'type: FolderOrCreate'))).toMatchObject({
      code: 422,
      object: { message: expect.stringContaining('hostPath.type: Unsupported value: "FolderOrCreate"') },
    });
    const pod = (await print('static-pod')).replace('spec:', 'spec:\n  serviceAccountName: vipnat');
    expect(await dryRun(lab(), toMirrorPod(parse(pod)[0] as KubernetesObject, 'm1'))).toMatchObject({
      code: 403,
      object: { message: expect.stringContaining('a mirror pod may not reference service accounts') },
    });
  });
});

describe("the DaemonSet's service account", () => {
  testServiceAccount(lab);
});

describe('keepalived as a static pod', () => {
  const holders = () => lab().listHolders();
  const hasMovedFrom = async (holder: string) => {
    const [now, ...others] = await holders();
    return now !== undefined && now !== holder && others.length === 0;
  };

  beforeAll(async () => {
    const spec = findPodSpec(await print(...keepalived));
    await Promise.all(names.map((name) => lab().service(name, 'keepalived').stop()));
    await waitFor(async () => (await holders()).length === 0, changeMs);
    await Promise.all(names.map((name) => startPod(lab(), { master: name, service: 'keepalived' }, spec)));
    await waitFor(async () => (await holders()).length === 1, changeMs);
  });

  test('is one file for all masters: each has its own priority, and one has the VIP', async () => {
    const script = "sed -n 's/^ *priority //p' /run/vipnat/keepalived/keepalived.conf";
    const priorities = await Promise.all(names.map((name) => runShell(lab().machine(name), script)));
    expect(priorities.map(Number)).toEqual([250, 240, 230]);
    expect(await holders()).toHaveLength(1);
    // The folder of the agent's default --run-dir: who looks at the host finds it there.
    const { stdout } = await lab()
      .machine('m1')
      .run(vipnatCommand('status', '--json', '--vip', lab().vip));
    expect(stdout).toMatch(/"vrid": ?51,[^}]*"priority": ?250/);
  });

  test('runs with the four capabilities that its spec names, and cannot write its root', async () => {
    const folder = `/proc/${lab().service('m1', 'keepalived').readPid()}`;
    const script = `sed -n 's/^CapEff:[^0-9a-f]*//p' ${folder}/status; grep ' / ' ${folder}/mounts`;
    // SETGID is bit 6; NET_BROADCAST, NET_ADMIN and NET_RAW are bits 11 to 13.
    expect(await runShell(lab().machine('m1'), script)).toMatch(/^0{12}3840\n(?:.* ro[, ].*\n?)+$/);
  });

  test('takes away the local route that a killed agent has left, when it ends', async () => {
    const machine = lab().machine('m3');
    await lab().service('m3', 'vipnat').stop();
    await runShell(machine, `ip -4 route replace local ${lab().vip} dev eth0 table local proto 118`);
    await lab().service('m3', 'keepalived').stop();
    expect(await runShell(machine, 'ip -4 route show table local proto 118')).toBe('');
    await startPod(lab(), { master: 'm3', service: 'keepalived' }, findPodSpec(await print(...keepalived)));
  });

  test('leaves a master that is drained in the container of its agent, a static pod too; undrain works there as well', async () => {
    const spec = findPodSpec(await print('static-pod', ...defaultAgentArguments(lab().options)));
    await Promise.all(names.map((name) => lab().service(name, 'vipnat').stop()));
    await Promise.all(names.map((name) => startPod(lab(), { master: name, service: 'vipnat' }, spec)));
    const [holder = ''] = await holders();
    const run = (...words: readonly string[]) => execInAgentPod(lab(), { master: holder, spec }, words);
    await waitFor(async () => (await run('status', '--vip', lab().vip)).stdout.includes('in sync'), changeMs);

    // An agent that has just started knows of no other apiserver yet that is ready.
    await waitFor(async () => (await run('drain', '--dry-run')).exitCode === 0, changeMs);
    const isDrained = expect.stringContaining('is drained since');
    expect(await run('drain')).toMatchObject({ exitCode: 0, stderr: isDrained });
    await waitFor(() => hasMovedFrom(holder), changeMs);
    const listFiles = () => runShell(lab().machine(holder), 'ls /var/lib/vipnat');
    expect((await listFiles()).split('\n')).toContain('drained');
    const isUndrained = expect.stringContaining('is no longer drained');
    expect(await run('undrain')).toMatchObject({ exitCode: 0, stderr: isUndrained });
    expect((await listFiles()).split('\n')).not.toContain('drained');
  });
});
