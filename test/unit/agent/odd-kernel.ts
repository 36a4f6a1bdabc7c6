import { FakeKernel } from '../../support/fakes/kernel.ts';
import type { KernelQuery, KernelReading, Transaction } from '../../../lib/kernel/port.ts';

/** A kernel whose tools print, or whose strangers act, in a way of their own. */
export class OddKernel extends FakeKernel {
  print = (text: string): string => text;
  afterApply = (): void => undefined;

  override async read(query: KernelQuery): Promise<KernelReading> {
    const reading = await super.read(query);
    return {
      ...reading,
      iptables: reading.iptables.map((output) => ({ ...output, text: this.print(output.text) })),
    };
  }

  override async apply(transaction: Transaction): Promise<void> {
    await super.apply(transaction);
    this.afterApply();
  }
}
