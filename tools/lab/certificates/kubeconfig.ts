import type { KeyPair } from './certificates.ts';
import { renameSync, writeFileSync } from 'node:fs';

/** Who is to ask which server. */
export interface KubeconfigNeeds {
  /** An URL. */
  readonly server: string;
  readonly authority: string;
  readonly user: string;
  readonly pair: KeyPair;
}

/** Writes a kubeconfig, as JSON, which is YAML too, at once: a program of another node may be reading it. Answers its path. */
export function writeKubeconfig(path: string, { server, authority, user, pair }: KubeconfigNeeds): string {
  const content = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'lab', cluster: { server, 'certificate-authority': authority } }],
    users: [{ name: user, user: { 'client-certificate': pair.certificate, 'client-key': pair.key } }],
    contexts: [{ name: 'lab', context: { cluster: 'lab', user } }],
    'current-context': 'lab',
  };
  writeFileSync(`${path}.new`, JSON.stringify(content, null, 2));
  renameSync(`${path}.new`, path);
  return path;
}
