import { type Clock, systemClock } from '../../lib/clock.ts';
import { type KernelSubject, garbage } from './subject.ts';
import { FakeKernel } from '../support/fakes/kernel.ts';
import { readCapture } from '../support/kube-proxy/read-capture.ts';
import { toolName } from '../../lib/kernel/port.ts';

/** A clock whose long waits are short: a hanging tool is given up in the fake after 10 s. */
const hastyClock: Clock = {
  ...systemClock,
  schedule: (delayMs, callback) => systemClock.schedule(Math.min(delayMs, 200), callback),
};

/** The fake, with the loopback addresses every namespace has. */
export async function createFakeSubject(): Promise<KernelSubject> {
  const kernel = new FakeKernel(hastyClock);
  kernel.addAddress({ family: 'ipv4', address: '127.0.0.1', device: 'lo' });
  kernel.addAddress({ family: 'ipv6', address: '::1', device: 'lo' });
  return await Promise.resolve({
    kernel,
    run: later((...words) => {
      kernel.run(...words);
    }),
    runNft: later((script) => {
      kernel.runNft(script);
    }),
    mountLock: () => Promise.resolve(),
    addAddress: later((address) => {
      kernel.addAddress({ family: address.includes(':') ? 'ipv6' : 'ipv4', address, device: 'lo' });
    }),
    removeAddress: later((address) => {
      kernel.removeAddress(address);
    }),
    connect: later((vip) => {
      kernel.connect(vip);
    }),
    programNftProxy: later((state) => {
      const { nftables } = JSON.parse(readCapture(`nft-kube-proxy.${state}.json`)) as { nftables: unknown[] };
      kernel.setNftProxy('ipv4', nftables);
    }),
    trackFlow: later((flow) => {
      kernel.trackFlow(flow);
    }),
    disableForwarding: later((family) => {
      kernel.forwarding = { ...kernel.forwarding, [family]: false };
    }),
    enableForwarding: later((family) => {
      kernel.forwarding = { ...kernel.forwarding, [family]: true };
    }),
    breakTool: later((tool, fault) => {
      if (fault === 'missing') kernel.faults.failNext({ tool, code: 'TOOL_MISSING' });
      else if (fault === 'hanging') kernel.faults.hangNext(tool);
      else kernel.faults.printNext(tool, garbage);
    }),
    addStrangeRule: later((family, table) => {
      kernel.faults.spoilTable(toolName(family, 'nft', 'save'), table, 'incompatible');
    }),
    loseMatch: later((family, dialect, table) => {
      kernel.faults.spoilTable(toolName(family, dialect, 'save'), table);
    }),
    countChildren: () => Promise.resolve(0),
    dispose: () => Promise.resolve(),
  });
}

/** Another program's act: it takes a moment. */
function later<T extends readonly unknown[]>(act: (...words: T) => void): (...words: T) => Promise<void> {
  return async (...words) => {
    await Promise.resolve();
    act(...words);
  };
}
