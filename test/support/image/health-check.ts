import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';

export function readHealthCheck(): string[] {
  const dockerfile = readFileSync(join(rootFolder, 'Dockerfile'), 'utf8');
  const [, words = ''] = /^HEALTHCHECK .*CMD (\[.*\])$/m.exec(dockerfile) ?? [];
  return JSON.parse(words) as string[];
}
