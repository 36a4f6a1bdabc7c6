import { type Product, product } from './product.ts';
import { emptyState, type Assessment, type ReconcileState } from '../../../../agent/decide/decision.ts';
import type { HostPorts } from '../../../../agent/read-host.ts';
import type { Transaction, KernelReading } from '../../../../lib/kernel/port.ts';

/** A vipnat that is broken in one way, and what the model has to say of it. */
export interface Mutant {
  readonly name: string;
  readonly product: Product;
  readonly complaint: string;
}

/** Broken vipnats, that nobody may take for a good one. */
export const mutants: readonly Mutant[] = [
  mutate('forgets the hook in OUTPUT', 'I7', rewrite(drop(/^-I OUTPUT /))),
  mutate('forgets to masquerade', 'I7', rewrite(drop(/^-I POSTROUTING /))),
  mutate('appends its hooks', 'I7', rewrite(replace(/^-I /gm, '-A '))),
  mutate(
    'empties PREROUTING before it hooks',
    'I5',
    rewrite(replace(/^-I PREROUTING /gm, '-F PREROUTING\n$&')),
  ),
  mutate('deletes its hooks by number', 'I5', rewrite(replace(/^-D (\S+) .*$/gm, '-D $1 1'))),
  mutate('writes a transaction for each table', 'I6', splitTables),
  mutate('takes away the old rules before it writes the new ones', 'I12', (found) => ({
    ...found,
    plan: { ...found.plan, transactions: found.plan.transactions.toReversed() },
  })),
  mutate('never leaves the bypass', 'service-chain', (found) => ({
    ...found,
    memory: {
      ...found.memory,
      vips: new Map([...found.memory.vips].map(([vip]) => [vip, { isBypass: true, agreedSyncs: 0 }])),
    },
  })),
  mutate('looks a little different each time', 'I3', (found) => ({
    ...found,
    decisions: found.decisions.map((decision) => ({ ...decision, reason: `look ${(looks += 1)}` })),
  })),
  blind('does not see that kube-proxy wants its chain gone', 'I11', (ports) => ({
    ...ports,
    kernel: { ...ports.kernel, read: async (query) => hideWish(await ports.kernel.read(query)) },
  })),
  blind('takes everybody for alive', 'connections go to', (ports) => ({
    ...ports,
    health: { watch: () => new Map() },
  })),
  blind('takes a lost API for an empty one', 'I10', (ports) => ({
    ...ports,
    api: {
      getView: async (known) => {
        const view = await ports.api.getView(known);
        return view === null || view.isCurrent ? view : { ...view, isCurrent: true, endpoints: {} };
      },
    },
  })),
  {
    name: 'does not read its state file',
    complaint: 'connections go to untranslated',
    product: { ...product, recall: () => Promise.resolve(emptyState) },
  },
  {
    name: 'forgets the filter table when it cleans up',
    complaint: 'I4',
    product: {
      ...product,
      planCleanup: (reading) =>
        withTransactions(product.planCleanup(reading), (transaction) => [
          { ...transaction, input: transaction.input.replace(/^\*filter\n[^]*?^COMMIT\n/m, '') },
        ]),
    },
  },
];

let looks = 0;

function mutate(name: string, complaint: string, change: (found: Assessment) => Assessment): Mutant {
  const changed: Product = {
    ...product,
    look: async (ports, memory) => change(await product.look(ports, memory)),
    assess: (basis) => change(product.assess(basis)),
  };
  return { name, complaint, product: changed };
}

function blind(name: string, complaint: string, change: (ports: HostPorts) => HostPorts): Mutant {
  const look = (ports: HostPorts, memory: ReconcileState) => product.look(change(ports), memory);
  return { name, complaint, product: { ...product, look } };
}

function rewrite(change: (script: string) => string): (found: Assessment) => Assessment {
  return (found) => ({
    ...found,
    plan: withTransactions(found.plan, (transaction) => [
      { ...transaction, input: change(transaction.input) },
    ]),
  });
}

function withTransactions<Plan extends { readonly transactions: readonly Transaction[] }>(
  plan: Plan,
  change: (transaction: Transaction) => readonly Transaction[],
): Plan {
  return { ...plan, transactions: plan.transactions.flatMap(change) };
}

function drop(line: RegExp): (script: string) => string {
  return (script) =>
    script
      .split('\n')
      .filter((text) => !line.test(text))
      .join('\n');
}

function replace(pattern: RegExp, by: string): (script: string) => string {
  return (script) => script.replace(pattern, by);
}

function splitTables(found: Assessment): Assessment {
  return {
    ...found,
    plan: withTransactions(found.plan, (transaction) =>
      transaction.input.split(/(?<=^COMMIT\n)/m).map((input) => ({ ...transaction, input })),
    ),
  };
}

function hideWish(reading: KernelReading): KernelReading {
  return {
    ...reading,
    iptables: reading.iptables.map((output) => ({ ...output, text: drop(/-j REJECT/)(output.text) })),
  };
}
