import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { runShell } from '../../lab/machines/machine.ts';

/** What happens to a node that has pods of a Service, and none of its addresses. */
export interface Fault {
  readonly meaning: string;
  /** For how long clients go on at least. */
  readonly lengthMs: number;
  /** Answers when it began, in milliseconds since the epoch. */
  break(lab: NodeLab, node: string): Promise<number>;
  /** Undoes it; what follows from that takes its time. */
  mend(lab: NodeLab, node: string): Promise<void>;
}

/** The table of the rules that cut a node from the API. */
const table = 'inet bench-cut';

/** Behind address translation, so that whatever leads to an apiserver is met: the API's VIP, and the Service of Kubernetes. */
const rules = ['output', 'forward'].map(
  (hook) =>
    `add chain ${table} ${hook} { type filter hook ${hook} priority 300; }
     add rule ${table} ${hook} tcp dport 6443 drop`,
);

/** By their words. */
export const faults = {
  power: {
    meaning: 'the node loses its power',
    lengthMs: 10_000,
    break: (lab, node) => lab.powerOff(node),
    mend: (lab, node) => lab.boot(node),
  },
  api: {
    // Kubernetes calls such a node and its pods not ready after 50 s.
    meaning:
      'for 65 s, a firewall on the node drops everything that the node and its pods send to apiservers',
    lengthMs: 65_000,
    break: async (lab, node) => {
      const script = [`add table ${table}`, ...rules].join('\n');
      const begun = Date.now();
      await runShell(lab.machine(node), `nft -f - <<'END'\n${script}\nEND`);
      return begun;
    },
    mend: async (lab, node) => {
      await runShell(lab.machine(node), `nft delete table ${table}`);
    },
  },
} satisfies Record<string, Fault>;
