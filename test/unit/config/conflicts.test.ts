import { describe, expect, test } from '@jest/globals';
import { type Flags } from '../../../config/flags.ts';
import { readConfig } from '../../../config/load.ts';

const problemsOf = async (flags: Flags) =>
  (await readConfig({ flags, environment: {}, file: undefined })).problems;

describe('values that contradict one another or this host', () => {
  test('a CA file that is not there or no certificate', async () => {
    for (const caFile of ['/nowhere/ca.crt', '/etc/passwd']) {
      expect(await problemsOf({ vip: ['10.0.0.50'], caFile })).toEqual([
        `--ca-file ${caFile} cannot be read as a PEM certificate. Give the cluster's CA, such as /etc/kubernetes/pki/ca.crt`,
      ]);
    }
  });

  test('a kubeconfig that is not there or no file', async () => {
    for (const kubeconfig of ['/nowhere/admin.conf', '/etc']) {
      expect(await problemsOf({ vip: ['10.0.0.50'], kubeconfig })).toEqual([
        `--kubeconfig ${kubeconfig} is not a readable file. Give a kubeconfig, such as /etc/kubernetes/admin.conf`,
      ]);
    }
  });

  test('the same VIP twice, however it is written', async () => {
    expect(await problemsOf({ vip: ['10.0.0.50', '10.0.0.50:6443'] })).toEqual([
      '--vip 10.0.0.50:6443 is given twice. Leave one out',
    ]);
    expect(await problemsOf({ vip: ['10.0.0.50', '10.0.0.50:8443'] })).toEqual([]);
  });

  test('an endpoint at a VIP, whatever its port, would be a loop', async () => {
    expect(await problemsOf({ vip: ['10.0.0.50:8443'], endpoints: ['10.0.0.50:6443'] })).toEqual([
      "--endpoints 10.0.0.50:6443 is at a virtual IP: connections would run in a loop. Give the apiservers' own addresses",
    ]);
  });

  test('a method where kube-proxy chooses', async () => {
    for (const mode of ['service-chain', 'cluster-ip'])
      expect(await problemsOf({ vip: ['10.0.0.50'], method: 'lc', mode })).toEqual([
        `--method lc cannot be had with the mode ${mode}, where kube-proxy chooses. Leave out the mode, or give direct`,
      ]);
    for (const mode of ['auto', 'direct'])
      expect(await problemsOf({ vip: ['10.0.0.50'], method: 'lc', mode })).toEqual([]);
  });

  test('the ClusterIP as VIP', async () => {
    expect(await problemsOf({ vip: ['10.96.0.1'], clusterIp: ['10.96.0.1'] })).toEqual([
      '--cluster-ip 10.96.0.1 is a virtual IP. Give the ClusterIP of default/kubernetes',
    ]);
  });

  test('a second ClusterIP of a family', async () => {
    expect(await problemsOf({ vip: ['10.0.0.50'], clusterIp: ['10.96.0.1,10.96.0.2'] })).toEqual([
      '--cluster-ip 10.96.0.2 is a second ClusterIP for IPv4. Give one per family',
    ]);
  });

  test('files that are not here are not told where the configuration is for another host', async () => {
    const flags = { vip: ['10.0.0.50'], caFile: '/nowhere/ca.crt', kubeconfig: '/nowhere/admin.conf' };
    const sources = { flags, environment: {}, file: undefined, isForElsewhere: true };
    expect((await readConfig(sources)).problems).toEqual([]);
  });

  test('an endpoint and a ClusterIP of a family that no VIP has', async () => {
    expect(
      await problemsOf({ vip: ['10.0.0.50'], clusterIp: ['fd00:10:96::1'], endpoints: ['[fd00::11]:6443'] }),
    ).toEqual([
      '--cluster-ip fd00:10:96::1 is IPv6, but no virtual IP is. Add an IPv6 virtual IP',
      '--endpoints [fd00::11]:6443 is IPv6, but no virtual IP is. Add an IPv6 virtual IP',
    ]);
  });

  test('are not looked for without a VIP, or beside one that cannot be read', async () => {
    expect(await problemsOf({ endpoints: ['10.0.0.11:6443'] })).toEqual([]);
    expect(await problemsOf({ vip: ['nonsense'], endpoints: ['10.0.0.11:6443'] })).toHaveLength(1);
  });

  test('say where the later one is from', async () => {
    const { problems } = await readConfig({
      flags: { vip: ['10.0.0.50'] },
      environment: { VIPNAT_ENDPOINTS: '10.0.0.11:6443,10.0.0.50:6443' },
      file: undefined,
    });
    expect(problems).toEqual([expect.stringContaining('in a loop (from VIPNAT_ENDPOINTS). ')]);
  });
});
