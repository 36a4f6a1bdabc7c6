import { type Clock, systemClock } from '../../lib/clock.ts';
import { type KernelSubject, garbage } from './subject.ts';
import { FakeKernel } from '../support/fakes/kernel.ts';
import { readFile } from 'node:fs/promises';
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
    run: async (family, dialect, script) => {
      await Promise.resolve();
      kernel.run(family, dialect, script);
    },
    runNft: async (script) => {
      await Promise.resolve();
      kernel.runNft(script);
    },
    mountLock: () => Promise.resolve(),
    addAddress: async (address) => {
      await Promise.resolve();
      kernel.addAddress({ family: address.includes(':') ? 'ipv6' : 'ipv4', address, device: 'lo' });
    },
    removeAddress: async (address) => {
      await Promise.resolve();
      kernel.removeAddress(address);
    },
    connect: async (vip) => {
      await Promise.resolve();
      kernel.connect(vip);
    },
    programNftProxy: async (state) => {
      const path = new URL(`../support/fixtures/captures/nft-kube-proxy.${state}.json`, import.meta.url);
      const { nftables } = JSON.parse(await readFile(path, 'utf8')) as { nftables: unknown[] };
      kernel.setNftProxy('ipv4', nftables);
    },
    trackFlow: async (flow) => {
      await Promise.resolve();
      kernel.trackFlow(flow);
    },
    disableForwarding: async (family) => {
      await Promise.resolve();
      kernel.forwarding = { ...kernel.forwarding, [family]: false };
    },
    enableForwarding: async (family) => {
      await Promise.resolve();
      kernel.forwarding = { ...kernel.forwarding, [family]: true };
    },
    breakTool: async (tool, fault) => {
      await Promise.resolve();
      if (fault === 'missing') kernel.faults.failNext({ tool, code: 'TOOL_MISSING' });
      else if (fault === 'hanging') kernel.faults.hangNext(tool);
      else kernel.faults.printNext(tool, garbage);
    },
    addStrangeRule: async (family, table) => {
      await Promise.resolve();
      kernel.faults.spoilTable(toolName(family, 'nft', 'save'), table, 'incompatible');
    },
    loseMatch: async (family, dialect, table) => {
      await Promise.resolve();
      kernel.faults.spoilTable(toolName(family, dialect, 'save'), table);
    },
    countChildren: () => Promise.resolve(0),
    dispose: () => Promise.resolve(),
  });
}
