/**
 * A registry with one image, by the distribution specification's pull endpoints (github.com/opencontainers/distribution-spec):
 * `node registry-program.ts FOLDER PORT`, FOLDER an OCI image layout. Every name and tag is that image. It ends with its standard input.
 */
import { readFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { createServer } from 'node:http';

const [folder = '', port = ''] = process.argv.slice(2);

interface Descriptor {
  readonly digest: string;
  readonly mediaType: string;
}

const { manifests } = JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8')) as {
  readonly manifests: readonly [Descriptor];
};
const [image] = manifests;

/** What is asked for; null for what is not there. */
function find(path: string): Descriptor | null {
  const [, kind, reference = ''] = /^\/v2\/.+\/(manifests|blobs)\/([^/]+)$/.exec(path) ?? [];
  if (kind === undefined) return null;
  if (kind === 'manifests' && (reference === image.digest || !reference.includes(':'))) return image;
  return { digest: reference, mediaType: 'application/octet-stream' };
}

/** The file of a digest; null where there is none. */
function locate({ digest }: Descriptor): string | null {
  const [, hex] = /^sha256:([0-9a-f]{64})$/.exec(digest) ?? [];
  const path = join(folder, 'blobs/sha256', hex ?? '');
  return hex !== undefined && existsSync(path) ? path : null;
}

const server = createServer(({ url = '', method }, response) => {
  const { pathname } = new URL(url, 'http://registry');
  if (pathname === '/v2/') return response.end('{}');
  const found = find(pathname);
  const path = found === null ? null : locate(found);
  if (found === null || path === null) return response.writeHead(404).end();
  const content = readFileSync(path);
  response.writeHead(200, {
    'content-type': found.mediaType,
    'content-length': content.length,
    'docker-content-digest': found.digest,
  });
  return response.end(method === 'HEAD' ? undefined : content);
});

server.listen(Number(port), '::', () => {
  process.stdout.write('ready\n');
});
process.stdin.resume().on('end', () => process.exit(0));
