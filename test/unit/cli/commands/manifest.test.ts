import { describe, test, expect } from '@jest/globals';
import { parse, print, findPodSpec, readWords } from '../../../support/manifest/printing.ts';
import { endpointSlices, services } from '../../../../agent/api.ts';
import { readFile } from 'node:fs/promises';
import { parse as parseYaml } from 'yaml';
import { checkCall } from '../../../support/documents/call.ts';

const vip = '--vip 10.0.0.50';

describe('a DaemonSet', () => {
  test('comes with an account that may do what the agent asks for and docs/reference.md names, and nothing else', async () => {
    const objects = parse(await print(`daemonset ${vip}`));
    expect(objects.map(({ apiVersion, kind, metadata }) => [apiVersion, kind, metadata.namespace])).toEqual([
      ['v1', 'ServiceAccount', 'kube-system'],
      ['rbac.authorization.k8s.io/v1', 'Role', 'default'],
      ['rbac.authorization.k8s.io/v1', 'RoleBinding', 'default'],
      ['apps/v1', 'DaemonSet', 'kube-system'],
    ]);
    const [, role, binding] = objects;
    const document = await readFile('docs/reference.md', 'utf8');
    const [, yaml = ''] = /```yaml\n(apiVersion: rbac[^]*?)```/.exec(document) ?? [];
    const { rules } = parseYaml(yaml) as { rules: unknown };
    expect(role).toMatchObject({ rules });
    const follow = { resourceNames: ['kubernetes'], verbs: ['list', 'watch'] };
    expect(rules).toEqual([
      { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], ...follow },
      { apiGroups: [''], resources: ['services'], ...follow },
      { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
    ]);
    expect(binding).toMatchObject({
      roleRef: { kind: 'Role', name: role?.metadata.name },
      subjects: [{ kind: 'ServiceAccount', name: 'vipnat', namespace: 'kube-system' }],
    });
    expect([endpointSlices, services].map(({ path, selector }) => `${path}?${selector}`)).toEqual([
      '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?fieldSelector=metadata.name%3Dkubernetes',
      '/api/v1/namespaces/default/services?fieldSelector=metadata.name%3Dkubernetes',
    ]);
  });

  test('is bound in the namespace that it runs in', async () => {
    const objects = parse(await print(`daemonset ${vip} --namespace vipnat-system`));
    const namespaces = objects.map(({ metadata }) => metadata.namespace);
    expect(namespaces).toEqual(['vipnat-system', 'default', 'default', 'vipnat-system']);
    expect(objects[2]).toMatchObject({ subjects: [{ namespace: 'vipnat-system' }] });
  });
});

describe.each([
  ['a DaemonSet of least privilege', 'daemonset --least-privilege'],
  ['a static pod', 'static-pod'],
])('%s', (_, words) => {
  test('has three capabilities and can write three places of the host only', async () => {
    const { containers, volumes } = findPodSpec(await print(`${words} ${vip}`));
    const [{ securityContext, volumeMounts }] = containers;
    expect(securityContext).toEqual({
      ...{ runAsUser: 0, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
      capabilities: { drop: ['ALL'], add: ['NET_ADMIN', 'NET_BIND_SERVICE', 'NET_RAW'] },
      ...{ seccompProfile: { type: 'RuntimeDefault' }, seLinuxOptions: { type: 'spc_t', level: 's0' } },
    });
    const places = volumeMounts.map(({ mountPath }) => mountPath);
    expect(places).toEqual(['/run/xtables.lock', '/var/lib/vipnat', '/run/vipnat']);
    expect(volumes.map(({ name }) => name)).toEqual(volumeMounts.map(({ name }) => name));
  });

  test('only checks what it cannot set, and says what the host needs for its virtual IPs', async () => {
    const both = await print(`${words} ${vip} --vip fd00::50`);
    const { args } = findPodSpec(both).containers[0];
    expect(args).toEqual(['run', '--vip=10.0.0.50:6443', '--vip=[fd00::50]:6443', '--sysctls=check']);
    expect(both).toContain('run: sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1\n');
    expect(await print(`${words} ${vip}`)).not.toContain('ipv6');
    const set = await print(`${words} ${vip} --sysctls set`);
    expect(findPodSpec(set).containers[0].args).toEqual(['run', '--vip=10.0.0.50:6443', '--sysctls=set']);
  });
});

describe('what was given', () => {
  const words =
    'daemonset --vip 10.0.0.50 --vip FD00::50 --mode direct --log-format=json --endpoints 10.0.0.12:6443,10.0.0.11:6443 --probe-interval 0.1s --kubeconfig /etc/kubernetes/admin.conf --ca-file /etc/kubernetes/pki/ca.crt --state-dir /srv/vipnat/';

  test('runs: the arguments come to the very configuration that was checked', async () => {
    const { request, problems } = await readWords(words);
    expect(problems).toEqual([]);
    const { args } = findPodSpec(await print(words)).containers[0];
    expect((await checkCall(args)).reading.config).toEqual(request.config);
  });

  test('may be a variable as well', async () => {
    const text = await print('daemonset', { VIPNAT_VIP: '10.0.0.50', VIPNAT_MODE: 'direct' });
    expect(findPodSpec(text).containers[0].args).toEqual(['run', '--vip=10.0.0.50:6443', '--mode=direct']);
  });

  test('is seen in the container where it names files and folders', async () => {
    const { containers, volumes } = findPodSpec(await print(words));
    expect(volumes.slice(2).map(({ hostPath }) => hostPath)).toEqual([
      { path: '/srv/vipnat', type: 'DirectoryOrCreate' },
      { path: '/run/vipnat', type: 'DirectoryOrCreate' },
      { path: '/etc/kubernetes/pki/ca.crt', type: 'File' },
      { path: '/etc/kubernetes/admin.conf', type: 'File' },
    ]);
    expect(containers[0].volumeMounts.slice(2)).toEqual([
      { name: 'state', mountPath: '/srv/vipnat' },
      { name: 'run', mountPath: '/run/vipnat' },
      { name: 'ca-file', mountPath: '/etc/kubernetes/pki/ca.crt', readOnly: true },
      { name: 'kubeconfig', mountPath: '/etc/kubernetes/admin.conf', readOnly: true },
    ]);
  });

  test('mounts one file once, whatever it is for', async () => {
    const { volumes } = findPodSpec(await print(`daemonset ${vip} --ca-file /etc/x --kubeconfig /etc/x`));
    expect(volumes.filter(({ hostPath }) => hostPath?.path === '/etc/x')).toHaveLength(1);
  });

  test('stands in the first line, as a command that prints the same', async () => {
    const text = await print(`${words} --image host:5000/a/vipnat:2 --namespace x --least-privilege`);
    const [first = ''] = text.split('\n');
    expect(first).toBe(
      "# vipnat manifest daemonset --vip=10.0.0.50:6443 '--vip=[fd00::50]:6443' --mode=direct --endpoints=10.0.0.11:6443,10.0.0.12:6443 --probe-interval=100ms --ca-file=/etc/kubernetes/pki/ca.crt --kubeconfig=/etc/kubernetes/admin.conf --state-dir=/srv/vipnat/ --log-format=json --image=host:5000/a/vipnat:2 --namespace=x --least-privilege",
    );
    const again = first.replaceAll("'", '').split(' ').slice(3);
    expect(await print(again)).toBe(text);
  });

  test('is what Kubernetes reads: no text becomes a number or a variable', async () => {
    for (const namespace of ['on', 'no', 'null', '1e3', '0x12', '017', '2026-11-21', 'y']) {
      const [account] = parse(await print(`daemonset ${vip} --namespace ${namespace}`));
      expect(account?.metadata.namespace).toBe(namespace);
    }
    const folder = '/srv/$(HOME) $$ \'it\' "s" # {x}';
    const { containers, volumes } = findPodSpec(
      await print(['static-pod', ...vip.split(' '), '--state-dir', folder]),
    );
    expect(containers[0].args).toContain('--state-dir=/srv/$$(HOME) $$$$ \'it\' "s" # {x}');
    expect(volumes).toContainEqual({ name: 'state', hostPath: { path: folder, type: 'DirectoryOrCreate' } });
  });
});
