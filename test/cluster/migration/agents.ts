import { vipnatCommand } from '../../../lab/components/agent.ts';
import { type Lab } from '../../../lab/control-plane/lab.ts';
import { waitForAgent } from '../../../lab/control-plane/ready.ts';
import { apiserverPort } from '../../support/network/layout.ts';
import { listHolderLast } from './guide-keepalived.ts';

/** Starts an agent on each master for the VIP's own port, and more ports where they are given; answers when all balance. */
export async function startAgents(lab: Lab, morePorts: readonly number[] = []): Promise<void> {
  const agentArguments = morePorts.flatMap((port) => ['--vip', `${lab.vip}:${port}`]);
  for (const { name } of listHolderLast()) {
    await lab.start(name, 'vipnat', { agentArguments });
    await waitForAgent(lab, name, { ports: [apiserverPort, ...morePorts] });
  }
}

/** Stops them; what they wrote stays. */
export async function stopAgents(lab: Lab): Promise<void> {
  for (const { name } of listHolderLast()) await lab.service(name, 'vipnat').stop();
}

/** Stops them, and takes away what they wrote. */
export async function removeAgents(lab: Lab): Promise<void> {
  await stopAgents(lab);
  for (const { name } of listHolderLast()) {
    const { exitCode, stderr } = await lab.machine(name).run(vipnatCommand('cleanup'));
    if (exitCode !== 0) throw new Error(`vipnat cleanup on ${name}: ${stderr}`);
  }
}
