import { AddressDigests } from '../netlink/address-digest.ts';
import { readForwarding } from '../host/forwarding.ts';
import { readGeneration } from './generation.ts';
import { readIpvs, withoutConnectionCounts } from './ipvs.ts';
import { readOwnRules } from './own-rules.ts';
import { type KnownForwarding } from '../host/known-forwarding.ts';
import { startLockWatch } from './lock-watch.ts';
import { createNetlinkClient, type NetlinkClient } from '../netlink/netlink.ts';
import { startPoll } from './poll.ts';
import { type Trigger, type Watch } from '../port.ts';
import { type Source, type SourceOptions } from './source.ts';

/** Starts a source for each trigger. One that fails is reported and takes nothing from the others. */
export function startWatch(options: SourceOptions, known: KnownForwarding): Watch {
  const netfilter = createNetlinkClient('netfilter');
  const route = createNetlinkClient('route');
  const routes = createNetlinkClient('route', true);
  const triggerToSource: Readonly<Record<Exclude<Trigger, 'own-rules'>, Source>> = {
    'nft-generation': watchGeneration(options, netfilter),
    addresses: watchAddresses(options, { few: route, many: routes }),
    ipvs: watchIpvs(options),
    forwarding: watchForwarding(options, known),
    'xtables-lock': startLockWatch(options),
  };
  const sources = Object.values(triggerToSource);
  return {
    ready: Promise.all(sources.map(({ ready }) => ready)).then(() => undefined),
    async close() {
      await Promise.all(sources.map((source) => source.stop()));
      netfilter.close();
      route.close();
      routes.close();
    },
  };
}

/** While vipnat's rules are gone, connections go to the VIP holder alone. The kernel answers in microseconds, waking up costs many times that: docs/adr/0008. */
const generationPollMs = 50;

/** To read the handles costs many times what the generation does: where somebody writes all the time, so often at most. */
const ownRulesRestMs = 100;

/** Rules do not depend on the VIP's holder, which is only reported. */
const addressPollMs = 200;

/** The kernel takes a microsecond to list an address. kube-proxy's mode ipvs gives a host one for each Service: 5,000 are read each 1.5 s. */
const pollMsPerAddress = 0.3;

/** From here on the larger parts of a list are worth their memory. */
const manyAddresses = 500;

/** kube-proxy itself writes at most once a second. */
const ipvsPollMs = 1000;

/** Without ip_vs in the kernel there is nothing to see until kube-proxy starts in that mode, which takes seconds. */
const missingIpvsPollMs = 5000;

/** While it is off, new connections hang, and clients try again after a second. inotify does not see /proc. */
const forwardingPollMs = 1000;

function watchGeneration({ clock, onTrigger, onProblem }: SourceOptions, client: NetlinkClient): Source {
  let seen = { generation: -1, own: '', at: -Infinity };
  let trigger: Trigger = 'nft-generation';
  return startPoll({
    clock,
    look: async () => {
      const generation = await readGeneration(client);
      // What comes too early is told by a later look.
      if (generation === seen.generation || clock.now() - seen.at < ownRulesRestMs) return seen.generation;
      const own = await readOwnRules(client);
      trigger = own === seen.own ? 'nft-generation' : 'own-rules';
      seen = { generation, own, at: clock.now() };
      return generation;
    },
    everyMs: () => generationPollMs,
    onChange: () => {
      onTrigger(trigger);
    },
    onProblem,
  });
}

function watchAddresses(
  { clock, onTrigger, onProblem }: SourceOptions,
  clients: Readonly<Record<'few' | 'many', NetlinkClient>>,
): Source {
  const digests = new AddressDigests();
  let count = 0;
  return startPoll({
    clock,
    look: async () => {
      const digest = await digests.read(count < manyAddresses ? clients.few : clients.many);
      ({ count } = digest);
      return `${digest.count} ${digest.sum}`;
    },
    everyMs: () => Math.max(addressPollMs, count * pollMsPerAddress),
    onChange: () => {
      onTrigger('addresses');
    },
    onProblem,
  });
}

function watchIpvs({ clock, onTrigger, onProblem }: SourceOptions): Source {
  return startPoll({
    clock,
    look: async () => {
      const ipvs = await readIpvs();
      return ipvs === null ? null : withoutConnectionCounts(ipvs);
    },
    everyMs: (seen) => (seen === null ? missingIpvsPollMs : ipvsPollMs),
    onChange: () => {
      onTrigger('ipvs');
    },
    onProblem,
  });
}

function watchForwarding({ clock, onTrigger, onProblem }: SourceOptions, known: KnownForwarding): Source {
  return startPoll({
    clock,
    look: async () => known.see(await readForwarding()),
    everyMs: () => forwardingPollMs,
    onChange: () => {
      onTrigger('forwarding');
    },
    onProblem,
  });
}
