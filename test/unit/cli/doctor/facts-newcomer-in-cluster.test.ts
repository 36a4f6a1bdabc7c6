import { describe, test, expect } from '@jest/globals';
import { makeProcess, kubeconfig, makeFacts } from '../../../support/doctor/well-host.ts';
import {
  masterFiles,
  withInstance,
  vip,
  keepalived,
  meet,
  iptables,
  readHost,
  levelsOf,
  noFiles,
} from '../../../support/doctor/newcomer-host.ts';
import { type HostFacts, ipvsModules, filePaths } from '../../../../cli/doctor/facts.ts';

/** What takes something away that serves. */
const stops = /\bstop\b|disable|kill|addr del|restart|rm |mv \/etc\/kubernetes|iptables.* -D|ipvsadm/;

describe('what serves the API today is never to be stopped first:', () => {
  const haproxy = makeProcess('haproxy', { pid: 20, group: '/system.slice/haproxy.service' });
  const served = { files: masterFiles, ...withInstance };
  test.each<[string, string, Partial<HostFacts>]>([
    [
      'haproxy',
      'from-keepalived--haproxy',
      {
        ...served,
        vipHolderAnswers: new Map([[vip, { kind: 'refused' }]]),
        processes: { value: [keepalived, haproxy] },
        listeners: { value: [{ family: 'ipv4', address: vip, port: 6443, pid: 20 }] },
      },
    ],
    ['kube-vip', 'from-kube-vip', { files: masterFiles, processes: { value: [makeProcess('kube-vip')] } }],
    [
      'a holder elsewhere that sends no VRRP',
      'from-kube-vip',
      {
        files: masterFiles,
        linkHolders: { value: new Map([[vip, { mac: '02:42:0a:4d:00:0c', addresses: [] }]]) },
      },
    ],
    [
      'a virtual server',
      'before-either',
      {
        ...served,
        ipvs: {
          value: 'TCP  0A4D0032:192B rr\n  -> 0A4D000D:192B      Masq    1      0          0         \n',
        },
      },
    ],
  ])('%s', async (_, place, changes) => {
    const { troubles, comments, commands } = await meet(changes);
    expect(comments.join('\n')).toContain(`docs/migrate.md#${place}`);
    const pasted = troubles.flatMap((one) => ('remedy' in one ? one.remedy : []));
    const run = [...commands, ...pasted.filter((line) => !line.startsWith('#'))];
    expect(run.filter((line) => stops.test(line))).toEqual([]);
    expect(troubles.filter(({ level }) => level === 'fail')).toEqual([]);
  });
});

describe('a host of a cluster', () => {
  test.each([
    ['iptables mode', iptables],
    ['ipvs mode', ['iptables-legacy-save.ipvs-three-endpoints.txt', 'proc-net-ip_vs.three-endpoints.txt']],
    ['nftables mode', ['nft-kube-proxy.three-endpoints.json']],
  ])('that runs an apiserver, with kube-proxy in %s, is led to the agent', async (_, captures) => {
    const { troubles, titles } = await meet({
      files: masterFiles,
      assessment: { value: await readHost(captures) },
      processes: { value: [makeProcess('kube-proxy')] },
      modules: new Map(ipvsModules.map((name) => [name, 'here'] as const)),
      ipvs: { value: 'TCP  0A600001:01BB rr\n' },
    });
    expect(levelsOf(troubles).filter((one) => one.endsWith('fail'))).toEqual([]);
    expect(titles.some((title) => title.startsWith('Create the cluster'))).toBe(false);
    expect(titles).toContain('Start the agent on each control-plane node.');
  });

  test('that runs none is a worker, and is told where to go', async () => {
    const files = new Map([...noFiles, [filePaths.kubelet, kubeconfig('https://elsewhere:6443')]]);
    const { titles, commands } = await meet({
      files,
      assessment: { value: await readHost(iptables) },
      processes: { value: [makeProcess('kube-proxy')] },
    });
    expect(titles.at(-1)).toMatch(/^Go to the control-plane nodes/);
    expect(commands).toEqual([]);
  });

  test('whose certificate lacks a VIP that nobody uses yet is only warned', async () => {
    const endpoint = '10.77.0.11:6443';
    const serving = {
      alternativeNames: 'DNS:kubernetes',
      validTo: new Date('2027-11-21T12:00:00Z'),
      clockAheadMs: 0,
    };
    const changes = { files: masterFiles, serving: { value: new Map([[endpoint, serving]]) } };
    expect(levelsOf((await meet(changes)).troubles)).toContain('certificate-lacks-vip warn');
    const files = new Map([...masterFiles, [filePaths.admin, kubeconfig(`https://${vip}:6443`)]]);
    expect(levelsOf((await meet({ ...changes, files })).troubles)).toContain('certificate-lacks-vip fail');
  });
});

describe('a host on which an agent has run is judged as ever:', () => {
  const cases: readonly [string, Partial<HostFacts>][] = [
    ['it runs', { agent: { version: '0.1.0', pid: 9, since: '' } }],
    ['it has left what it remembers', { hasMemory: { value: true } }],
    ['the kubelet is to run it', { files: new Map([...noFiles, [filePaths.agentManifest, { value: 'x' }]]) }],
  ];

  test.each(cases)('%s', async (_, changes) => {
    const { stage, next, pending, troubles } = await meet(changes);
    expect({ stage, next, pending }).toEqual({ stage: 'installed', next: [], pending: [] });
    expect(levelsOf(troubles)).toContain('vip-nowhere fail');
  });

  test('it has left rules', async () => {
    const { assessment } = await makeFacts();
    expect(await meet({ assessment })).toMatchObject({ stage: 'installed', next: [] });
  });
});

test('what cannot be seen is not taken for not there yet', async () => {
  const unseen = { unknown: "this container does not see the host's /etc/kubernetes" };
  const files = new Map(Object.values(filePaths).map((path) => [path, unseen] as const));
  const { pending, topics } = await meet({ files, processes: unseen, keepalived: unseen, trackFile: unseen });
  const reasons = topics
    .flatMap(({ outcomes }) => outcomes)
    .filter((one) => one.level === 'skipped' && one.pending !== true)
    .map(({ code }) => code);
  for (const code of ['kubeconfig-at-vip', 'no-shutdown-delay', 'keepalived-lacks-vip', 'track-file-stale']) {
    expect(pending).not.toContain(code);
    expect(reasons).toContain(code);
  }
});
