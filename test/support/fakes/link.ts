import { type AskOtherHolder } from '../../../agent/keepalived/other-holders.ts';

/** An Ethernet with other hosts on it: who answers ARP for which address. */
export class FakeLink {
  /** By address: the MAC of another host that has it. */
  readonly others = new Map<string, string>();
  /** A router that answers for every address, once set. */
  proxy: string | null = null;
  /** What every question fails with while it is set. */
  problem: Error | null = null;
  /** The addresses that were asked for, in order. */
  readonly asked: string[] = [];

  askOtherHolder: AskOtherHolder = ({ address, device }) => {
    this.asked.push(address);
    if (this.problem !== null) return Promise.reject(this.problem);
    const mac = this.others.get(address) ?? this.proxy;
    return Promise.resolve(mac === null ? null : { mac, device });
  };
}
