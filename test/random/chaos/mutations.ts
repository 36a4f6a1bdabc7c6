import { broken } from '../../support/broken/broken.ts';
import type { SourceChange } from '../../support/broken/source-change.ts';
import type { Walk } from '../../support/chaos/engine/walk.ts';

/** A fault in vipnat itself, and a walk that must bring it to light. */
export interface Mutation extends SourceChange {
  /** Empty where the first rules that it writes are wrong. */
  readonly walk: Walk;
  /** What the world must complain of then, and not of something else: that would be chance. */
  readonly complaint: RegExp;
}

const damageEverything: Walk = Array.from({ length: 8 }, (_, index) => ({
  ...{ fault: 'damage a rule', host: 'm1', family: 'ipv4', damage: 'edit', index },
}));

/** Broken vipnats, each in one place; those that differ most from one another come first. */
export const mutations: readonly Mutation[] = [
  {
    ...broken.chain,
    walk: [{ fault: 'kube-proxy syncs', host: 'm2', list: [] }],
    complaint: /^m2: kube-proxy cannot restore its rules/m,
  },
  {
    name: 'renames what it has not flushed to the disk',
    file: 'lib/files.ts',
    from: '    await file.sync();\n',
    to: '',
    walk: [{ fault: 'API lists', list: ['m1', 'm2'] }],
    complaint: / became the state and was not flushed$/m,
  },
  {
    name: 'restores whole tables',
    file: 'lib/kernel/iptables.ts',
    from: "arguments: ['--noflush', '-w', '5']",
    to: "arguments: ['-w', '5']",
    walk: [],
    complaint: /^m1: foreign rules are missing: \S+ \*\w+ KUBE-/m,
  },
  {
    name: 'believes every rule that has the right comment',
    file: 'lib/dialect.ts',
    from: 'language.hasSameMeaning(text, printed) ||',
    to: 'language.readComment(printed) === id ||',
    walk: damageEverything,
    complaint: /^outside client to \S+: (?:none of|\d+ of \d+ connections failed)/m,
  },
  {
    ...broken.dead,
    walk: [{ fault: 'apiserver', name: 'm3', condition: 'dead' }],
    complaint: /^outside client to \S+: \d+ of \d+ connections failed: ECONNREFUSED/m,
  },
  {
    ...broken.draining,
    walk: [{ fault: 'apiserver', name: 'm3', condition: 'failing' }],
    complaint: /^outside client to \S+: went to m3, which is not usable/m,
  },
  {
    name: 'cleans up all but FORWARD',
    file: 'lib/iptables/diff.ts',
    from: '.filter(([name]) => !isOwnChain(name) && !hooked.has(name))',
    to: ".filter(([name]) => !isOwnChain(name) && !hooked.has(name) && name !== 'FORWARD')",
    walk: [],
    complaint: /^m1: cleanup has left rules:[^]* FORWARD /m,
  },
  {
    name: 'does not look when rules change',
    file: 'agent/sync.ts',
    from: '      this.#queue.trigger(trigger);\n',
    to: '      void trigger;\n',
    walk: [{ fault: 'flush table', host: 'm1', table: 'nat' }],
    complaint: /^m1: check exits with 2/m,
  },
  {
    name: 'forgets IPv6',
    file: 'config/load.ts',
    from: 'vips: vip,',
    to: "vips: vip.filter(({ family }) => family === 'ipv4'),",
    walk: [],
    complaint: /^outside client to fd77::50: none of/m,
  },
];
