import {
  makeProcess,
  keepalived,
  tell,
  assessWell,
  keepalivedText,
} from '../../../support/doctor/well-host.ts';
import type { HostFacts } from '../../../../cli/doctor/facts.ts';
import { describe, test, expect } from '@jest/globals';

const apiserver = makeProcess('kube-apiserver', { pid: 8, arguments: ['x', '--shutdown-delay-duration=9s'] });
const haproxy = makeProcess('haproxy', { group: '/system.slice/haproxy.service' });
const listening: Partial<HostFacts> = {
  listeners: { value: [{ family: 'ipv4', address: '10.77.0.50', port: 6443, pid: 20 }] },
  processes: { value: [keepalived, apiserver, haproxy] },
};
const kubeVip: Partial<HostFacts> = {
  processes: { value: [keepalived, apiserver, makeProcess('kube-vip', { group: '/kubepods.slice/x' })] },
};
const server: Partial<HostFacts> = {
  ipvs: { value: 'TCP  0A4D0032:192B rr\n  -> 0A4D000D:192B      Masq    1      0          0         \n' },
};

async function remedyOf(code: string, changes: Partial<HostFacts>): Promise<readonly string[]> {
  const found = (await tell(changes)).find((one) => one.code === code);
  return found !== undefined && 'remedy' in found ? found.remedy : [];
}

const commandsIn = (remedy: readonly string[]) => remedy.filter((line) => !line.startsWith('#'));

describe('who serves the API at the VIP is left alone, and docs/migrate.md named,', () => {
  const cases = [
    ['foreign-listener', listening],
    ['kube-vip-running', kubeVip],
    ['foreign-virtual-server', server],
  ] as const;

  test.each(cases)('while no agent runs: %s', async (code, changes) => {
    const remedy = await remedyOf(code, { ...changes, agent: null });
    expect(remedy.join('\n')).toContain('docs/migrate.md');
    expect(commandsIn(remedy)).toEqual([]);
  });

  test.each(cases)('while the agent leaves the VIP to its holder: %s', async (code, changes) => {
    const assessment = await assessWell();
    const decisions = assessment.decisions.map((one) => ({ ...one, mode: 'passthrough' as const }));
    const facts = { ...changes, assessment: { value: { ...assessment, decisions } } };
    expect(commandsIn(await remedyOf(code, facts))).toEqual([]);
  });

  test.each(cases)('and not once an agent balances the VIP: %s', async (code, changes) => {
    expect(commandsIn(await remedyOf(code, changes))).not.toEqual([]);
  });
});

test('who is asked by a check of keepalived is not stopped before that is changed', async () => {
  const text = `vrrp_script chk {\n script "/x"\n}\n${keepalivedText}`;
  const remedy = await remedyOf('foreign-listener', {
    ...listening,
    keepalived: { value: { path: '/etc/keepalived/keepalived.conf', text, files: [] } },
  });
  expect(commandsIn(remedy)).toEqual([]);
  expect(remedy.join('\n')).toContain('step 2');
});

test('kube-vip is not taken away while no keepalived is there to hold the VIP', async () => {
  const processes = { value: [apiserver, makeProcess('kube-vip')] };
  expect(commandsIn(await remedyOf('kube-vip-running', { processes }))).toEqual([]);
});

test('a process on the port of a known apiserver is not killed, whatever it is called', async () => {
  const processes = { value: [keepalived, apiserver, makeProcess('my-wrapper')] };
  expect(commandsIn(await remedyOf('foreign-listener', { ...listening, processes }))).toEqual([]);
});

describe('a unit that is not there is in no remedy:', () => {
  test.each<[string, Partial<HostFacts>]>([
    ['agent-not-running', { agent: null }],
    ['agent-other-version', { agent: { version: '0.0.9', pid: 1, since: '' } }],
    ['keepalived-not-running', { processes: { value: [apiserver] } }],
  ])('%s', async (code, changes) => {
    const commands = commandsIn(await remedyOf(code, { ...changes, units: new Set() }));
    expect(commands.filter((line) => line.includes('systemctl'))).toEqual([]);
  });
});
