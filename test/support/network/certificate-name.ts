import { type PeerCertificate } from 'node:tls';

/**
 * Whose certificate an apiserver has. The lab's are named for their node; kubeadm's are all named alike, and have the node among
 * the other names.
 */
export function nameApiserver({ subject, subjectaltname = '' }: PeerCertificate): string {
  const node = /DNS:(?!kubernetes\b|localhost\b)([^,]+)/.exec(subjectaltname)?.[1];
  return String(subject.CN) === 'kube-apiserver' && node !== undefined ? node : String(subject.CN);
}
