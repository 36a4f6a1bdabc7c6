import type { Lab } from '../control-plane/lab.ts';
import { NodeLab } from '../nodes/node-lab.ts';
import { describeNodes } from '../nodes/describe.ts';
import { hosts, masters } from '../../../test/support/network/layout.ts';
import { components } from '../components/component.ts';
import { vipnatCommand } from '../components/agent.ts';

/** One screen: what the lab is, what runs where, who holds the VIP and how it is balanced there. */
export async function describeLab(lab: Lab): Promise<string> {
  const { name, kubernetes, family } = lab.options;
  const holders = await lab.listHolders();
  const rows = lab instanceof NodeLab ? await describeNodes(lab) : await describeHosts(lab);
  const mode = holders[0] === undefined ? '' : await describeMode(lab, holders[0]);
  return [
    `lab ${name}: Kubernetes ${kubernetes}${lab instanceof NodeLab ? ' on real nodes' : ''}, ${describeProxy(lab)}, ${family}`,
    `VIP ${lab.vip}: ${holders.length === 0 ? 'held by nobody' : `held by ${holders.join(', ')}`}`,
    ...(mode === '' ? [] : [`    ${mode}`]),
    '',
    ...rows,
    '',
    `logs in ${lab.folder}/NODE`,
    '',
  ].join('\n');
}

function describeProxy({ options, hasKubeProxy }: Lab): string {
  const { proxyMode, iptables } = options;
  return hasKubeProxy ? `kube-proxy in ${proxyMode} mode, iptables-${iptables}` : 'no kube-proxy';
}

async function describeHosts(lab: Lab): Promise<string[]> {
  const rows = await Promise.all(hosts.map((host) => describeHost(lab, host.name)));
  return hosts.map(({ name, addresses, pods }, index) => {
    const pod = pods === undefined ? '' : '  + pod';
    return `${name.padEnd(8)}${addresses[lab.options.family].padEnd(14)}${rows[index] ?? ''}${pod}`;
  });
}

async function describeHost(lab: Lab, host: string): Promise<string> {
  if (host === 'client') return 'outside the cluster';
  const isMaster = masters.some(({ name }) => name === host);
  const expected = components.filter((component) => {
    if (component === 'keepalived') return isMaster && lab.hasVip(host);
    if (component === 'kube-proxy') return lab.hasKubeProxy;
    return isMaster;
  });
  const states = await Promise.all(
    expected.map(async (component) => {
      const isRunning = await lab.service(host, component).isRunning();
      return isRunning ? component : `${component}: NOT RUNNING`;
    }),
  );
  return states.length === 0 ? 'no component' : states.join(', ');
}

async function describeMode(lab: Lab, master: string): Promise<string> {
  const { stdout, stderr } = await lab.machine(master).run(vipnatCommand('check', '--vip', lab.vip));
  return (stdout + stderr).trim();
}
