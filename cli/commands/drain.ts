import { drainHost, undrainHost } from '../../agent/main.ts';
import { nameNode } from '../../config/node-name.ts';
import { createDrainStore } from '../../lib/files/drain-store.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { formatDrain, formatUndrain } from '../format/screens/drain.ts';
import { type DrainContext } from '../grammar/command-context.ts';

/**
 * `vipnat drain`: writes into the state folder that this host is drained, and waits until its agent keeps it so.
 * @throws VipnatError DRAIN_REFUSED, STATE_NOT_WRITTEN, or what the agent says
 */
export async function drain({ config, options, stdout, stderr }: DrainContext): Promise<number> {
  checkNode(nameNode(config), options.node, 'drain');
  const { location, ports, since } = await drainHost(config, options);
  if (since === null) {
    stdout(formatDrain({ location, runDir: config.runDir, ports }));
    return exitStatuses.done;
  }
  stderr(`${nameNode(config)} is drained since ${since.toISOString()}\n`);
  stderr(
    'within a few seconds its apiserver gets no new connections from the virtual IPs. Open ones continue\n',
  );
  stderr('after maintenance: vipnat undrain\n');
  return exitStatuses.done;
}

/**
 * `vipnat undrain`: takes it back. Without an agent it removes the rule itself.
 * @throws VipnatError DRAIN_REFUSED, STATE_NOT_WRITTEN, or what the agent or nft says
 */
export async function undrain({ config, options, stdout, stderr }: DrainContext): Promise<number> {
  checkNode(nameNode(config), options.node, 'undrain');
  if (options.dryRun) {
    stdout(formatUndrain(createDrainStore(config.stateDir).location));
    return exitStatuses.done;
  }
  const wasDrained = await undrainHost(config);
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
