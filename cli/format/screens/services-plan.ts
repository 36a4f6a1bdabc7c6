import { toPrintableJson } from '../../../lib/text/printable.ts';

/** What the balancer of this host would write now. */
export interface ServicesPlan {
  /** Services with an address, ports and a place in its tables. */
  readonly services: number;
  /** Commands of nft, a line each; none where all is there. */
  readonly commands: readonly string[];
}

/** A shell's lines that write it in one transaction; empty where there is nothing to write, or nothing was planned. */
export function formatServicesPlan(plan: ServicesPlan | null): string {
  if (plan === null || plan.commands.length === 0) return '';
  const { commands } = plan;
  const count = `${commands.length} command${commands.length === 1 ? '' : 's'}`;
  return [
    `# Services: the balancer of this node would run ${count} of nft. Nothing was written.`,
    "nft -f - <<'END'",
    ...commands,
    'END',
    '',
  ].join('\n');
}

/** `plan --json` on a host that has Services, and no virtual IP of the API. Ends with a newline. */
export function formatServicesPlanJson(balancer: ServicesPlan | null, node: string): string {
  return `${toPrintableJson({ version: 1, node, vips: [], transactions: [], balancer }, 2)}\n`;
}
