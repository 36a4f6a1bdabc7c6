import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { masters } from '../../../support/network/layout.ts';
import { expect } from '@jest/globals';
import { runShell } from '../../../../tools/lab/machines/machine.ts';

/** Fails unless vipnat's local route to the VIP is on the VIP's holder, and on no other master. */
export async function expectSourceRoutes(lab: NodeLab): Promise<void> {
  const holders = await lab.listHolders();
  for (const { name } of masters) {
    const found = await listSourceRoutes(lab, name);
    expect({ name, found }).toEqual({ name, found: holders.includes(name) ? [lab.vip] : [] });
  }
}

/** The addresses that have a local route of vipnat's routing protocol. */
async function listSourceRoutes(lab: NodeLab, master: string): Promise<string[]> {
  const routes = await runShell(lab.machine(master), 'ip route show table local proto 118');
  return routes.split('\n').flatMap((line) => /^local (\S+)/.exec(line)?.[1] ?? []);
}
