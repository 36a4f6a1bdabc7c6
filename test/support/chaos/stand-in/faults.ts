import { fc } from '../../random/fc.ts';
import { agentHosts, apiservers } from './truth.ts';
import { families } from '../../../../lib/net.ts';
import type { Fault } from '../engine/world.ts';
import { fault, hookedChains, proxyBackends } from '../world/faults.ts';
import { tidyDamages } from '../../foreign/damage.ts';
import { hookCount } from './strangers.ts';
import { moments, tools, breakages } from './tools.ts';
import { stateFaults } from './state-faults.ts';

const host = fc.constantFrom(...agentHosts);
const family = fc.constantFrom(...families);
const index = fc.nat({ max: 20 });
/** Some of the apiservers, mostly all of them, never none. */
const someApiservers = fc.oneof(
  { arbitrary: fc.constant([...apiservers]), weight: 2 },
  { arbitrary: fc.subarray([...apiservers], { minLength: 1 }), weight: 3 },
);

/** Most locks are held for less than a second, and none for longer than 30. */
const lockMs = fc.oneof(
  { arbitrary: fc.integer({ min: 20, max: 900 }), weight: 30 },
  { arbitrary: fc.integer({ min: 900, max: 6000 }), weight: 5 },
  { arbitrary: fc.constant(30_000), weight: 1 },
);

const hour = 3600;

/** Forwards and back, by a leap second, a bad NTP server, and a battery that is empty. */
const clockJumps = [-1, 30, -hour, 26 * hour, -400 * 24 * hour, 4000 * 24 * hour];

/** The faults of the stand-in, each as often as the choice of what it can do makes worth. */
export const faults: readonly Fault[] = [
  fault('flush table', 6, { host, table: fc.constantFrom('nat', 'nat', 'filter', 'mangle') }),
  fault('damage a rule', 20, { host, family, damage: fc.constantFrom(...tidyDamages), index }),
  fault('strange hook', 6, {
    ...{ host, family, hook: fc.nat({ max: hookCount - 1 }) },
    chain: hookedChains,
  }),
  fault('kube-proxy syncs', 10, {
    host,
    list: fc.oneof(
      { arbitrary: someApiservers, weight: 6 },
      { arbitrary: fc.constant<string[]>([]), weight: 1 },
    ),
  }),
  fault('kube-proxy mode', 4, { host, mode: fc.constantFrom('iptables', 'iptables', 'nftables', 'none') }),
  fault('kube-proxy backend', 2, { host, backend: proxyBackends }),
  fault('firewall restored', 5, { host, family, table: fc.constantFrom('nat', 'nat', 'filter') }),
  fault('other version', 4, { host, family }),
  fault('agent killed', 8, { host }),
  fault('agent killed by a tool', 6, { host, moment: fc.constantFrom(...moments) }),
  fault('agent stopped', 2, { host }),
  fault('agent started', 8, { host }),
  fault('agent paused', 2, { host, durationMs: fc.integer({ min: 50, max: 3000 }) }),
  fault('VIP', 6, { to: fc.constantFrom('m1', 'm2', 'nobody') }),
  fault('apiserver', 8, {
    name: fc.constantFrom(...apiservers),
    condition: fc.oneof(
      { arbitrary: fc.constant('well'), weight: 8 },
      { arbitrary: fc.constantFrom('dead', 'blackholed', 'failing', 'slow'), weight: 8 },
      { arbitrary: fc.constant('frozen'), weight: 1 },
    ),
  }),
  fault('API answers', 4, { manner: fc.constantFrom('well', 'failing', 'hanging') }),
  fault('API lists', 3, { list: someApiservers }),
  fault('lock held', 3, { host, durationMs: lockMs }),
  fault('tool', 8, { host, tool: fc.constantFrom(...tools), how: fc.constantFrom(...breakages) }),
  fault('state folder', 4, { host, how: fc.constantFrom(...stateFaults) }),
  fault('clock', 3, { host, seconds: fc.constantFrom(...clockJumps) }),
  fault('no descriptors', 3, { host }),
];
