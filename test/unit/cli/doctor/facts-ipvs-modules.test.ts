import { makeProcess, keepalived, tell } from '../../../support/doctor/well-host.ts';
import type { ModuleState } from '../../../../lib/kernel/forwarding.ts';
import { type HostFacts, ipvsModules, sysctlNames } from '../../../../cli/doctor/facts.ts';
import { test, expect } from '@jest/globals';

const apiserver = makeProcess('kube-apiserver', { pid: 8, arguments: ['x', '--shutdown-delay-duration=9s'] });
const proxy = makeProcess('kube-proxy', { arguments: ['kube-proxy', '--proxy-mode=ipvs'] });
const withModules = (...states: readonly ModuleState[]): Partial<HostFacts> => ({
  processes: { value: [keepalived, apiserver, proxy] },
  modules: new Map(ipvsModules.map((name, index) => [name, states[index] ?? 'here'])),
  sysctls: new Map([
    [sysctlNames.conntrackCount, '1'],
    [sysctlNames.conntrackLoose, '1'],
  ]),
});
const found = async (facts: Partial<HostFacts>) =>
  (await tell(facts)).filter(({ code }) => code === 'ipvs-modules-missing');

test('a kube-proxy that is told to run in ipvs mode is missed its modules by name', async () => {
  expect(await found(withModules('absent', 'absent', 'absent'))).toMatchObject(
    ipvsModules.map((name) => ({ level: 'fail', title: expect.stringMatching(` no ${name}$`) })),
  );
});

test('ip_vs that can be loaded is loaded, and the kernel loads the others itself', async () => {
  expect(await found(withModules('loadable', 'loadable', 'loadable'))).toMatchObject([
    { level: 'fail', remedy: expect.arrayContaining(['modprobe ip_vs']) },
  ]);
});

test('what a kernel without a folder of modules shows by its files is there', async () => {
  const table = 'TCP  0A600001:01BB rr\n  -> 0A4D000D:192B      Masq    1      0          0         \n';
  const facts = withModules('unknown', 'unknown', 'unknown');
  const sysctls = new Map([...(facts.sysctls ?? []), [sysctlNames.conntrackMax, '100'] as const]);
  expect(await found({ ...facts, sysctls, ipvs: { value: table } })).toEqual([]);
  expect(await found({ ...facts, sysctls, ipvs: { value: '' } })).toMatchObject([{ level: 'skipped' }]);
});

test('nobody misses them in another mode', async () => {
  const facts = withModules('absent', 'absent', 'absent');
  expect(await found({ ...facts, processes: { value: [keepalived, apiserver] } })).toEqual([]);
});
