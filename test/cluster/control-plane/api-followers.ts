import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { beforeAll, test, expect } from '@jest/globals';
import { join } from 'node:path';
import { masters } from '../../support/network/layout.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { waitForBalance, waitForApiservers } from '../../../tools/lab/control-plane/ready.ts';
import { testSevenCases } from './seven-cases.ts';
import { readFileSync } from 'node:fs';

const limitMs = 400_000;
const followedMs = 30_000;
const recoveryMs = 60_000;

/**
 * Tests with agents that know the apiservers from the Kubernetes API first. The credentials are kube-proxy's, whose
 * kubeconfig names the VIP, as kubeadm's do. `moreArguments` is what `vipnat run` is given beside them.
 */
export function testWithApi(lab: () => Lab, moreArguments: readonly string[] = []): void {
  beforeAll(async () => {
    const kubeconfig = join(lab().folder, 'kube-proxy.kubeconfig');
    for (const { name } of masters) {
      await lab().service(name, 'vipnat').stop();
      await lab().start(name, 'vipnat', { agentArguments: ['--kubeconfig', kubeconfig, ...moreArguments] });
    }
    await waitFor(
      () => Promise.resolve(masters.every(({ name }) => readApiLines(lab(), name).length > 0)),
      followedMs,
    );
    await waitForBalance(lab());
  });

  testSevenCases(lab, ['VIP']);
}

/** A test in which etcd, and with it the API, is gone for a while on all masters: nothing changes. */
export function testEtcdOutage(lab: () => Lab, outageMs: number): void {
  test(
    'while etcd is stopped no rule is written and no backend is lost, and each agent says so in one line (I10)',
    async () => {
      const before = await Promise.all(masters.map(({ name }) => readState(lab(), name)));
      await Promise.all(masters.map(({ name }) => lab().service(name, 'etcd').stop('KILL')));
      await new Promise((resolve) => setTimeout(resolve, outageMs));
      expect(await Promise.all(masters.map(({ name }) => readRules(lab(), name)))).toEqual(
        before.map(({ rules }) => rules),
      );
      await Promise.all(masters.map(({ name }) => lab().start(name, 'etcd')));
      await waitForApiservers(lab());
      // Their leases were over: who is back first lists itself alone, until the others have done so too.
      const rulesOf = ({ rules }: { rules: string }) => rules;
      await waitFor(async () => {
        const now = await Promise.all(masters.map(({ name }) => readRules(lab(), name)));
        return now.join() === before.map(rulesOf).join();
      }, recoveryMs);
      for (const [index, { name }] of masters.entries()) {
        const lines = readLog(lab(), name).slice(before[index]?.log.length).split('\n');
        const count = (pattern: RegExp) => lines.filter((line) => pattern.test(line)).length;
        expect(count(/ no other apiserver is ready\. The apiserver stays in use$/)).toBe(1);
        // An open watch hears nothing of it: the API is lost only where one ends meanwhile.
        expect(count(/ vipnat cannot follow the Kubernetes API: /)).toBe(
          count(/ follows the API at .* again after /),
        );
        expect(count(/ is (?:dead|draining): /)).toBe(0);
      }
    },
    outageMs + limitMs,
  );
}

async function readState(lab: Lab, master: string): Promise<{ rules: string; log: string }> {
  return { rules: await readRules(lab, master), log: readLog(lab, master) };
}

function readLog(lab: Lab, master: string): string {
  return readFileSync(lab.service(master, 'vipnat').logFile, 'utf8');
}

/** What an agent has written about the API, in order. */
function readApiLines(lab: Lab, master: string): string[] {
  return readLog(lab, master)
    .split('\n')
    .filter((line) => / the (?:Kubernetes )?API[: ]/.test(line) && / (?:info|warn|error) /.test(line));
}

/** Our own rules, of either dialect, and how many writes of anybody's there were. */
async function readRules(lab: Lab, master: string): Promise<string> {
  const script = 'nft list table ip vipnat 2>/dev/null; iptables-nft-save | grep VIPNAT';
  return (await lab.machine(master).run(['sh', '-c', script])).stdout;
}
