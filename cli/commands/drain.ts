import { quoteWords, exitStatuses } from '../../lib/text.ts';
import { locateServingFile } from '../../lib/keepalived/write.ts';
import { drainTable, renderDrainTable } from '../../lib/kernel/iptables.ts';
import { toggle, type Words, type CommandContext, type OptionsOf, defineCommand } from '../command.ts';
import { nameNode } from '../../config/load.ts';
import { createDrainStore } from '../../lib/files.ts';
import { VipnatError } from '../../lib/errors.ts';

/**
 * What `vipnat drain` and the agent do, as commands for people: by the file in the state folder, and the ports of this host's apiservers,
 * none where its agent knows of none here, and takes those of all. Ends with a newline.
 */
export function formatDrain(location: string, ports: readonly number[], runDir: string): string {
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

const dryRun = toggle('print what it would change, and change nothing');
const flags = { dryRun, force: toggle('also if no other apiserver takes new connections') };

/** The node that is meant; null for this host. */
const words: Words<{ readonly node: string | null }> = { read: ([node]) => ({ node: node ?? null }) };

type UndrainContext = CommandContext<OptionsOf<{ dryRun: typeof dryRun }> & { readonly node: string | null }>;
type DrainContext = UndrainContext & CommandContext<OptionsOf<typeof flags>>;

const shared = {
  usage: '[NODE] [options]',
  words,
  configOptions: ['nodeName', 'stateDir', 'runDir', 'logLevel'],
} as const;

/** `vipnat drain`. */
export const drain = defineCommand({
  ...shared,
  help: `
Examples:
  vipnat drain                       before maintenance of this master
  vipnat drain --dry-run             what drain would change

The apiserver of this host gets no new connections, and open ones continue. The virtual
IPs move to another master. Agents see it within two seconds. It lasts until vipnat
undrain, also over a restart of the agent and of the host. Run it on the master itself.
Exit status: 0 drained, 1 failed or refused, 78 bad configuration.`,
  flags,
  run: drainThisHost,
});

/** `vipnat undrain`. */
export const undrain = defineCommand({
  ...shared,
  help: `
Examples:
  vipnat undrain                     after maintenance of this master
  vipnat undrain --dry-run           what undrain would change

The apiserver of this host gets new connections again, once it has given three good
answers. The virtual IPs stay where they are.
Exit status: 0 no longer drained, 1 failed, 78 bad configuration.`,
  flags: { dryRun },
  run: undrainThisHost,
});

/** Writes into the state folder that this host is drained, and waits until its agent keeps it so. */
async function drainThisHost({ config, options, stdout, stderr }: DrainContext): Promise<number> {
  checkNode(nameNode(config), options.node, 'drain');
  const { drainHost } = await import('../../agent/main.ts');
  const { location, ports, since } = await drainHost(config, options);
  if (since === null) {
    stdout(formatDrain(location, ports, config.runDir));
    return exitStatuses.done;
  }
  stderr(`${nameNode(config)} is drained since ${since.toISOString()}\n`);
  stderr(
    'within a few seconds its apiserver gets no new connections from the virtual IPs. Open ones continue\n',
  );
  stderr('after maintenance: vipnat undrain\n');
  return exitStatuses.done;
}

/** Without an agent it removes the rule itself. */
async function undrainThisHost({ config, options, stdout, stderr }: UndrainContext): Promise<number> {
  checkNode(nameNode(config), options.node, 'undrain');
  if (options.dryRun) {
    stdout(formatUndrain(createDrainStore(config.stateDir).location));
    return exitStatuses.done;
  }
  const { undrainHost } = await import('../../agent/main.ts');
  const wasDrained = await undrainHost(config, locateServingFile(config.runDir));
  stderr(
    wasDrained
      ? `${nameNode(config)} is no longer drained. Its apiserver gets new connections after three good answers\n`
      : `${nameNode(config)} was not drained\n`,
  );
  return exitStatuses.done;
}

/** What would be drained is this host. */
function checkNode(here: string, node: string | null, command: string): void {
  if (node === null || node === here) return;
  throw new VipnatError(
    'DRAIN_REFUSED',
    `this host is ${here}, and ${command} changes only the host that it runs on. Run vipnat ${command} on ${node}`,
  );
}
