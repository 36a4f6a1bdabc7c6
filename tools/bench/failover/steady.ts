import type { Lab } from '../../lab/control-plane/lab.ts';
import { type SetUpName, setUps } from './set-ups.ts';
import { waitForApiservers, waitForHolder, waitForBalance } from '../../lab/control-plane/ready.ts';
import { waitUntil } from '../shared/wait.ts';
import { masters, listApiservers, apiserverPort } from '../../../test/support/network/layout.ts';
import { haproxyStatusUrl, haproxyBackend } from '../../lab/components/haproxy.ts';

const requestCount = 30;

/**
 * Waits until a lab is as before any fault: one holder, three apiservers that answer, that kube-proxy lists, and that
 * whatever balances sends to.
 * @throws LabError when it does not become so.
 */
export async function waitForSteady(lab: Lab, setUp: SetUpName): Promise<void> {
  await waitForApiservers(lab);
  await waitForHolder(lab);
  await waitUntil('kube-proxy lists three apiservers on every master', () =>
    isSoEverywhere((master) => isListed(lab, master)),
  );
  if (setUp.startsWith('vipnat')) await waitForBalance(lab);
  if (setUp === 'haproxy') {
    await waitUntil('HAProxy has three servers on every master', () =>
      isSoEverywhere((master) => hasServers(lab, master)),
    );
  }
  await waitUntil(`${requestCount} requests through the VIP succeed`, async () => {
    const { errors } = await lab.seat('client', 'check').request(lab.vip, setUps[setUp].port, requestCount);
    return Object.keys(errors).length === 0;
  });
}

async function isSoEverywhere(isSo: (master: string) => Promise<boolean>): Promise<boolean> {
  return (await Promise.all(masters.map(({ name }) => isSo(name)))).every(Boolean);
}

/** Whether there is a rule to each apiserver: kube-proxy has one for each endpoint. */
async function isListed(lab: Lab, master: string): Promise<boolean> {
  const { family, iptables } = lab.options;
  const tool = `${family === 'ipv6' ? 'ip6tables' : 'iptables'}-${iptables}-save`;
  const { stdout } = await lab.machine(master).run([tool, '-t', 'nat']);
  const rules = stdout.split('\n').filter((line) => line.startsWith('-A KUBE-SEP-'));
  return listApiservers(family).every(({ address }) => {
    const host = family === 'ipv6' ? `[${address}]` : address;
    return rules.some((rule) => rule.endsWith(`--to-destination ${host}:${apiserverPort}`));
  });
}

async function hasServers(lab: Lab, master: string): Promise<boolean> {
  const { stdout } = await lab.machine(master).run(['curl', '--silent', '--max-time', '2', haproxyStatusUrl]);
  const states = masters.map(({ name }) => new RegExp(`^${haproxyBackend},${name},.*,UP,`, 'm'));
  return states.every((state) => state.test(stdout));
}
