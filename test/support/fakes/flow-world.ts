/** Connections of one Service in a kernel in memory, whose table is walked through. */
import type { PortBalance } from '../../../balancer/services/backends.ts';
import { makePortBalance } from './port-balance.ts';
import type { BalancedFlow } from '../../../lib/kernel/port.ts';
import { FakeClock } from './clock.ts';
import { createRecordingLogger } from './logger.ts';
import type { BalancerKernel } from '../../../lib/kernel/kernel.ts';
import { sleep } from '../../../lib/clock.ts';
import { Drains, FlowCleaner, createStrayFilter } from '../../../balancer/table/stale-flows.ts';

/** Two pods. */
export const [a, b] = [
  { address: '10.244.1.2', port: 8080 },
  { address: '10.244.2.2', port: 8080 },
];

/** One port of the Service at 10.0.9.10. */
export function balance(protocol: string, backends: PortBalance['backends'], present = backends) {
  return makePortBalance(backends, { protocol, present });
}

/** A connection of a port of the Service to a pod. */
export const flowTo = (backend: typeof a, port = 80): BalancedFlow => ({
  protocol: 'tcp',
  vip: { family: 'ipv4', address: '10.0.9.10', port },
  backend: { family: 'ipv4', ...backend },
});

/** A kernel that has these connections, and takes so long for each walk through its table. */
export function startFlowWorld(connections: readonly BalancedFlow[], walkMs = 40) {
  const clock = new FakeClock();
  const logger = createRecordingLogger();
  const host = {
    ...{ connections: [...connections], walks: [] as number[], failure: null as Error | null },
    /** When the address came or went. */
    turnedAt: -Infinity,
  };
  const ended = new Set<BalancedFlow>();
  const formerPorts = new Set<string>();
  const unanswered = new Set<BalancedFlow>();
  const forgetFlows: BalancerKernel['forgetFlows'] = async (choice, isSought) => {
    const isChosen = (flow: BalancedFlow) =>
      isSought({
        ...flow,
        isOpen: !ended.has(flow),
        isAnswered: !unanswered.has(flow),
        isEstablished: !ended.has(flow) && !unanswered.has(flow),
      });
    host.walks.push(clock.now());
    await sleep(clock, walkMs);
    if (host.failure !== null) throw host.failure;
    const chosen = host.connections.filter(
      (flow) => (choice === 'all' || flow.backend.address !== flow.vip.address) && isChosen(flow),
    );
    host.connections = host.connections.filter((flow) => !chosen.includes(flow));
    return chosen.map((flow) => ({ ...flow, count: 2 }));
  };
  const balances = [[balance('TCP', [a]), balance('UDP', [a], [a, b])]];
  const changes: (readonly (number | null)[])[] = [];
  const drains = new Drains({
    clock,
    cut: (flows) => {
      cleaner.add(flows, 'whose drain timeout is over');
    },
    keep: (flows) => {
      cleaner.keep(flows);
    },
    onChange: () => {
      cleaner.count();
      changes.push(drains.list.map(({ connections: count }) => count));
    },
  });
  const ports = { kernel: { forgetFlows }, clock, logger, turnedAt: () => host.turnedAt };
  const cleaner = new FlowCleaner({ ...ports, counters: [drains] }, () =>
    createStrayFilter(balances, formerPorts),
  );
  return {
    ...ports,
    ...{ cleaner, drains, changes, ended, formerPorts, unanswered, host },
    lines: () => logger.lines.map(({ message }) => message),
  };
}
