import {
  type HostPorts,
  type ReconcileInput,
  observeAndAssess,
  assess,
} from '../../../../agent/read-host.ts';
import {
  type ReconcileState,
  type Assessment,
  emptyState,
  type LastingState,
} from '../../../../agent/decide/decision.ts';
import type { KernelReading } from '../../../../lib/kernel/port.ts';
import type { Plan } from '../../../../lib/dialect.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { plan } from '../../../../agent/decide/plan.ts';
import { parseSave } from '../../../../lib/iptables/rules.ts';
import { parseNftTable } from '../../../../lib/nft/table.ts';
import type { Endpoint } from '../../../../lib/net.ts';
import { recallApiservers } from '../../../../agent/state.ts';

/** The parts of vipnat that a step of the model runs: its own ones, or, to see that the model notices, broken ones. */
export interface Product {
  /** One whole look, with what a process remembers. */
  look(ports: HostPorts, memory: ReconcileState): Promise<Assessment>;
  /** The answer to a death, from what the last look saw. */
  assess(basis: ReconcileInput): Assessment;
  /** What a new process knows, from the state file. */
  recall(saved: ReconcileState['endpoints']): Promise<ReconcileState>;
  planCleanup(reading: KernelReading): Plan;
}

export const product: Product = {
  look: (ports, memory) => observeAndAssess(ports, ordinaryConfig, memory),
  assess: (basis) => assess(basis, ordinaryConfig),
  recall: async (saved) => ({ ...emptyState, ...(await recall(saved.ipv4?.value ?? [])) }),
  planCleanup: ({ iptables, nftTables }) =>
    plan({ dialect: 'nft', balances: [] }, [...iptables.map(parseSave), ...nftTables.map(parseNftTable)]),
};

function recall(endpoints: readonly Endpoint[]): Promise<LastingState> {
  const file = endpoints.length === 0 ? null : { savedAt: '2026-01-01T00:00:00Z', endpoints };
  const store = {
    location: '/var/lib/vipnat/endpoints.json',
    load: () => Promise.resolve(file),
    save: () => Promise.resolve(),
  };
  return recallApiservers(store, (problem) => {
    throw problem;
  });
}
