import { type Host, apiserverPort, serviceNetworks } from '../../../test/support/network/layout.ts';
import { type LabOptions, listFamilies } from '../settings/options.ts';
import type { Certificates } from '../certificates/certificates.ts';
import type { Command } from './command.ts';
import { etcdUrl } from './etcd.ts';

/** A master's kube-apiserver, stacked on its own member of etcd as kubeadm has it. */
export function apiserverCommand(
  program: string,
  master: Host,
  options: LabOptions,
  certificates: Certificates,
): Command {
  const { family, shutdownDelaySeconds = 0 } = options;
  const { certificate, key } = certificates.serving(master.name);
  const serviceAccounts = certificates.serviceAccountKey;
  return {
    command: [
      program,
      ...[`--etcd-servers=${etcdUrl}`, `--advertise-address=${master.addresses[family]}`],
      ...[`--bind-address=${family === 'ipv6' ? '::' : '0.0.0.0'}`, `--secure-port=${apiserverPort}`],
      `--service-cluster-ip-range=${listFamilies(options)
        .map((one) => serviceNetworks[one])
        .join()}`,
      ...[`--tls-cert-file=${certificate}`, `--tls-private-key-file=${key}`],
      ...[`--client-ca-file=${certificates.authority}`, '--authorization-mode=Node,RBAC'],
      ...[
        `--service-account-key-file=${serviceAccounts}`,
        `--service-account-signing-key-file=${serviceAccounts}`,
      ],
      ...['--service-account-issuer=https://kubernetes.default.svc', '--cert-dir=/run/kube-apiserver'],
      '--endpoint-reconciler-type=lease',
      // As kubeadm has it: without it no privileged pod is accepted.
      '--allow-privileged=true',
      `--shutdown-delay-duration=${shutdownDelaySeconds}s`,
    ],
  };
}
