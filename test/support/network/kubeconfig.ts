import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Writes a kubeconfig with a token, as a service account has one, into a folder; answers the file's path. */
export function writeKubeconfig(
  folder: string,
  server: string,
  authority: string,
  { name = 'kubeconfig', token = 'a token' } = {},
): string {
  const file = join(folder, name);
  const config = {
    'current-context': 'vipnat',
    contexts: [{ name: 'vipnat', context: { cluster: 'cluster', user: 'vipnat' } }],
    clusters: [{ name: 'cluster', cluster: { server, 'certificate-authority': authority } }],
    users: [{ name: 'vipnat', user: { token } }],
  };
  writeFileSync(file, JSON.stringify(config));
  return file;
}
