import type { FindProblems } from './rule.ts';

/** Names that only who changes vipnat needs: invariants, decisions, files of tests. They are looked for in code and links, too. */
const internals = /\bI(?:1[0-6]|[1-9])\b|\bADRs?\b(?: \d+)?|\badr\/\d+|[\w/.-]+\.test\.ts\b/g;

/** Nothing that a user reads names vipnat's internals. */
export const refuseInternals: FindProblems = ({ source }) =>
  [...source.matchAll(internals)].map(({ 0: words, index }) => ({
    place: index,
    message: `"${words}": leave it out, users do not need it`,
  }));
