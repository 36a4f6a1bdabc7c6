import { type Host, masters } from '../../../test/support/network/layout.ts';
import type { LabOptions } from '../settings/options.ts';
import { type Command, toUrlHost } from './command.ts';

const clientPort = 2379;
const peerPort = 2380;

/** Where a master's member answers its apiserver. */
export const etcdUrl = `http://127.0.0.1:${clientPort}`;

/** Etcd's defaults are a fifth of these: in a virtual machine it would spend its time on saying that it is there. */
const slowTimes = ['--heartbeat-interval=500', '--election-timeout=5000'];

/** A master's member of etcd, all of them from the start; its data lasts as long as the machine. All masters are members, or those given. */
export function etcdCommand(
  program: string,
  master: Host,
  { family, proxyMode }: Pick<LabOptions, 'family' | 'proxyMode'>,
  members: readonly Host[] = masters,
): Command {
  const peerUrl = ({ addresses }: Host) => `http://${toUrlHost(addresses[family])}:${peerPort}`;
  const cluster = members.map((member) => `${member.name}=${peerUrl(member)}`).join(',');
  return {
    command: [
      program,
      ...[`--name=${master.name}`, '--data-dir=/run/etcd', '--log-level=warn'],
      ...[`--listen-client-urls=${etcdUrl}`, `--advertise-client-urls=${etcdUrl}`],
      ...[`--listen-peer-urls=${peerUrl(master)}`, `--initial-advertise-peer-urls=${peerUrl(master)}`],
      ...[`--initial-cluster=${cluster}`, '--initial-cluster-state=new'],
      // The data is in memory, which no power failure leaves behind.
      '--unsafe-no-fsync',
      // All members have to agree on them, so the one that is no virtual machine has them too.
      ...(proxyMode === 'ipvs' ? slowTimes : []),
    ],
  };
}
