/** A host with a thousand Services of somebody else, and a program that writes to nftables all the time. */
import type { Cluster } from '../../support/network/cluster.ts';
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { once } from 'node:events';

/** Rules of Services: 17,000 in 1,000 chains. */
const services = { chains: 1000, rules: 17 };

/** iptables-nft-save needs a tenth of a second without a commit for so many rules. */
const commitsPerSecond = 25;

/** Writes the rules of a kube-proxy with many Services, as far as others notice them. */
export async function writeServices(cluster: Cluster, machine: string): Promise<void> {
  const names = Array.from({ length: services.chains }, (_, chain) => `SERVICE-${chain}`);
  const rules = names.flatMap((name, chain) =>
    Array.from(
      { length: services.rules },
      (_, rule) => `-A ${name} -d 10.97.${chain >> 8}.${chain & 255}/32 -p tcp --dport ${rule + 1} -j RETURN`,
    ),
  );
  const input = ['*nat', ...names.map((name) => `:${name} - [0:0]`), ...rules, 'COMMIT'].join('\n');
  await cluster.shell(machine, `iptables-nft-restore --noflush <<'END'\n${input}\nEND`);
}

/** Starts a program that commits to a table of its own all the time; resolves once it has begun. The cluster's end ends it. */
export async function startStranger(cluster: Cluster, machine: string): Promise<ChildProcess> {
  const program = fileURLToPath(new URL('commits-child.ts', import.meta.url));
  const stranger = cluster.start(machine, [process.execPath, program, String(commitsPerSecond)]);
  if (stranger.stdout === null) throw new Error('the stranger has no standard output');
  await once(stranger.stdout, 'data');
  return stranger;
}
