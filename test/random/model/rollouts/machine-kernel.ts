/** The kernel of one machine: the balancer's table, connections, and where a new connection goes. */
import { type Clock, sleep } from '../../../../lib/clock.ts';
import { FakeBalancerKernel } from '../../../support/fakes/balancer-kernel.ts';
import { type NftTable, emptyTable } from '../../../../lib/nft/table.ts';
import type { LifeClock } from './life-clock.ts';
import type { BalancerKernel } from '../../../../lib/kernel/kernel.ts';
import { toWholeKernel } from '../../../support/api/balancer-life.ts';
import type { BalancedFlow } from '../../../../lib/kernel/port.ts';
import { aliveSeconds } from '../../../../lib/api/balancer.ts';
import { readTable } from '../../../../balancer/table/table.ts';

export interface Connection {
  readonly service: string;
  readonly vip: string;
  readonly address: string;
  /** The pod that had the address; null where nobody answered. */
  readonly pod: string | null;
  /** Whether its client sends something all the time. */
  readonly isBusy: boolean;
}

/** Every Service of these walks has this port, and every pod that one. */
const servicePort = 80;
export const podPort = 8080;

/** A walk through the table of connections. */
const walkMs = 20;

/** Of one machine, from one boot to the next. */
export class MachineKernel {
  readonly #clock: Clock;
  readonly #tables = new FakeBalancerKernel();
  readonly #onForgotten: (connection: Connection) => void;
  #table: NftTable | null = null;
  #aliveUntilMs = -Infinity;
  connections: Connection[] = [];
  /** Raised whenever the table changes. */
  #onChange: () => void;

  constructor(clock: Clock, onForgotten: (connection: Connection) => void, onChange: () => void) {
    this.#clock = clock;
    this.#onForgotten = onForgotten;
    this.#onChange = onChange;
  }

  /** Whether the table's rules count. */
  get isAlive(): boolean {
    return this.#clock.now() < this.#aliveUntilMs;
  }

  /** The addresses of Services that the table has. */
  get vips(): readonly string[] {
    return [...(this.#table?.sets.get('vips')?.elements.keys() ?? [])].map((key) => key.split(' ')[0] ?? '');
  }

  /** Addresses of pods to how many slots of a Service's port lead there; null where the table does not have it. */
  readSlots(vip: string): ReadonlyMap<string, number> | null {
    const { sets, chains } = this.#table ?? emptyTable;
    const goal = sets.get('vips')?.elements.get(`${vip} . 6 . ${servicePort}`);
    if (goal === undefined) return null;
    const rule = chains.get(goal.replace('goto ', ''))?.rules.at(-1) ?? '';
    const [, count, map = ''] = /mod (\d+) .*map @(\S+)$/.exec(rule) ?? [];
    const slots = [...(sets.get(map)?.elements ?? [])].filter(([at]) => Number(at) < Number(count));
    const addresses = slots.map(([, end]) => end.split(' ', 1)[0] ?? '');
    return new Map([...Map.groupBy(addresses, String)].map(([address, all]) => [address, all.length]));
  }

  /** What a balancer's process has of it. Nothing happens for a process that was killed. */
  serve(life: LifeClock): BalancerKernel {
    const whole = toWholeKernel(this.#tables);
    const guard = async <T>(act: () => Promise<T>): Promise<T> => {
      await sleep(life, 1);
      return await act();
    };
    return {
      ...whole,
      listTable: (table) => guard(() => whole.listTable(table)),
      readHandles: (name) => guard(() => whole.readHandles(name)),
      apply: (script) =>
        guard(async () => {
          await whole.apply(script);
          if (/^add element ip vipnat-lb alive /m.test(script))
            this.#aliveUntilMs = this.#clock.now() + aliveSeconds * 1000;
          await this.#read();
        }),
      changeElements: (changes) =>
        guard(async () => {
          const isDone = await whole.changeElements(changes);
          await this.#read();
          return isDone;
        }),
      forgetFlows: async (_choice, isSought) => {
        await sleep(life, walkMs);
        const chosen = this.connections.filter((one) => {
          const isAnswered = one.pod !== null;
          return isSought({ ...toFlow(one), isOpen: true, isAnswered, isEstablished: isAnswered });
        });
        this.connections = this.connections.filter((one) => !chosen.includes(one));
        for (const one of chosen) this.#onForgotten(one);
        return chosen.map((one) => ({ ...toFlow(one), count: 1 }));
      },
    };
  }

  async #read(): Promise<void> {
    this.#tables.scripts.length = 0;
    this.#table = readTable(await this.#tables.listTable('ip vipnat-lb'), 'ipv4');
    this.#onChange();
  }
}

function toFlow({ vip, address }: Connection): BalancedFlow {
  return {
    protocol: 'tcp',
    vip: { family: 'ipv4', address: vip, port: servicePort },
    backend: { family: 'ipv4', address, port: podPort },
  };
}
