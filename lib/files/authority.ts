import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** The certificates by which apiservers' own are verified, and the file they come from. */
export interface Authority {
  readonly file: string;
  /** PEM, one or more certificates. */
  readonly certificates: string;
}

/** Where the cluster's CA usually is: in a pod, as kubeadm has it, as kubespray has it, as RKE2 and k3s have it. */
const usualFiles = [
  '/var/run/secrets/kubernetes.io/serviceaccount/ca.crt',
  '/etc/kubernetes/pki/ca.crt',
  '/etc/kubernetes/ssl/ca.crt',
  '/var/lib/rancher/rke2/server/tls/server-ca.crt',
  '/var/lib/rancher/k3s/server/tls/server-ca.crt',
];

/** The CA in the given file, else in the first usual place that has one; null when none has. Read anew each time: CAs are rotated. */
export function findAuthority(file: string | null): Authority | null {
  for (const candidate of file === null ? usualFiles : [file]) {
    const certificates = readCertificates(candidate);
    if (certificates !== null) return { file: candidate, certificates };
  }
  return null;
}

/** The PEM text of a file that begins with a certificate, or null when it cannot be read or is something else. */
export function readCertificates(file: string): string | null {
  try {
    const text = readFileSync(file, 'utf8');
    new X509Certificate(text);
    return text;
  } catch {
    return null;
  }
}
