import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { masters, apiserverPort, outsider } from '../../../support/network/layout.ts';
import { toUrlHost } from '../../../../tools/lab/components/command.ts';
import { createInterface } from 'node:readline';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';

/** The Lease of the controller-manager that leads. */
export const controllerManager = 'kube-system/kube-controller-manager';

/** The Lease of the scheduler that leads: each connects to the apiserver of its own master. */
export const scheduler = 'kube-system/kube-scheduler';

export function nameKubeletLease(node: string): string {
  return `kube-node-lease/${node}`;
}

interface LeaseEvent {
  readonly type: string;
  readonly object: {
    readonly metadata: { readonly name: string; readonly namespace: string };
    readonly spec?: { readonly holderIdentity?: string };
  };
}

/** It ends with its standard input. */
const script = `curl --silent --show-error --no-buffer "$@" &
cat >/dev/null
kill $!`;

/** When Leases are renewed, as one apiserver tells the client straight: no move of the VIP changes that. */
export class Leases {
  readonly #holders = new Map<string, string>();
  /** When they were heard of, by `performance.now()`. */
  readonly #renewals = new Map<string, number[]>();
  readonly #close: () => void;

  private constructor(close: () => void) {
    this.#close = close;
  }

  /** Begins to follow all of them; answers when it is known which controller-manager leads. */
  static async follow(lab: NodeLab): Promise<Leases> {
    const { authority, admin } = lab.certificates;
    const address = masters.at(-1)?.addresses[lab.options.family] ?? '';
    const url = `https://${toUrlHost(address)}:${apiserverPort}/apis/coordination.k8s.io/v1/leases?watch=true`;
    const identity = ['--cacert', authority, '--cert', admin.certificate, '--key', admin.key];
    const child = lab.machine(outsider.name).spawn(['sh', '-c', script, 'sh', ...identity, url]);
    if (child.stdout === null) throw new Error('curl needs its standard output');
    const leases = new Leases(() => child.stdin?.end());
    const lines = createInterface({ input: child.stdout });
    lines.on('line', (line) => {
      leases.#note(JSON.parse(line) as LeaseEvent);
    });
    await waitUntil('a controller-manager leads', () =>
      Promise.resolve(leases.getHolder(controllerManager) === '' ? 'none is known' : null),
    ).catch((error: unknown) => {
      leases.close();
      throw error;
    });
    return leases;
  }

  /** Who has it; empty when nobody is known. */
  getHolder(lease: string): string {
    return this.#holders.get(lease) ?? '';
  }

  /** The last renewal at or before a moment of `performance.now()`, and the first one after it; null where none was heard of. */
  findAround(
    lease: string,
    momentMs: number,
  ): { readonly before: number | null; readonly after: number | null } {
    const times = this.#renewals.get(lease) ?? [];
    return {
      before: times.findLast((atMs) => atMs <= momentMs) ?? null,
      after: times.find((atMs) => atMs > momentMs) ?? null,
    };
  }

  close(): void {
    this.#close();
  }

  /** What comes first only says that there is one. */
  #note({ type, object: { metadata, spec } }: LeaseEvent): void {
    const lease = `${metadata.namespace}/${metadata.name}`;
    this.#holders.set(lease, spec?.holderIdentity ?? '');
    if (type !== 'MODIFIED') return;
    this.#renewals.set(lease, [...(this.#renewals.get(lease) ?? []), performance.now()]);
  }
}
