import { locateServingFile } from '../../../lib/keepalived/serving-file.ts';
import { drainTable, renderDrainTable } from '../../../lib/kernel/real/drain-rule.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';

/** What a drain changes. */
export interface DrainChange {
  /** The file in the state folder. */
  readonly location: string;
  readonly runDir: string;
  /** Those of this host's apiservers; empty where its agent knows of none here, and takes those of all. */
  readonly ports: readonly number[];
}

/** What `vipnat drain` and the agent do, as commands for people. Ends with a newline. */
export function formatDrain({ location, runDir, ports }: DrainChange): string {
  return `# drain would do this. Nothing was done.

date -u +%FT%T.000Z > ${quoteWords([location])}
${formatRule(ports)}# if another master can hold them, keepalived gives the virtual IPs away
echo 1 > ${quoteWords([locateServingFile(runDir)])}
`;
}

/** A table without a rule would refuse nothing. */
function formatRule(ports: readonly number[]): string {
  return ports.length === 0
    ? `# no apiserver of this host is known yet: the agent writes the table ${drainTable} once it knows the port\n`
    : `nft -f - <<'EOF'\n${renderDrainTable(ports)}EOF\n`;
}

/** What `vipnat undrain` and the agent do. */
export function formatUndrain(location: string): string {
  return `# undrain would do this. Nothing was done.

rm -f ${quoteWords([location])}
nft delete table ${drainTable}
`;
}
