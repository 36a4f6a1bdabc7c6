import { join } from 'node:path';
import { writeFileSync, rmSync, readFileSync } from 'node:fs';
import { createHash } from 'node:crypto';

/** How OCI's image layout points to a blob; annotations and the like stay as they are. */
interface Descriptor {
  readonly digest: string;
  readonly size: number;
}

interface Index {
  readonly manifests: readonly Descriptor[];
}

interface Manifest {
  readonly config: Descriptor;
}

interface Config {
  readonly history?: readonly { readonly comment?: string }[];
}

/** buildah 1.28 calls a stage of a Dockerfile by the id of the image that it made of it, which is another one each time. */
const stageId = /^FROM [0-9a-f]{12}$/;

/**
 * Removes the ids of stages from the history of the images in an OCI layout: nothing else differs between two builds of the same.
 * What is named by its bytes, the configuration and the manifest, gets its new name.
 */
export function removeStageIds(layout: string): void {
  const path = join(layout, 'index.json');
  const index = read(path) as Index;
  const manifests = index.manifests.map((descriptor) => {
    const manifest = read(locate(layout, descriptor)) as Manifest;
    const config = read(locate(layout, manifest.config)) as Config;
    const history = config.history?.map(({ comment, ...entry }) =>
      comment === undefined || stageId.test(comment) ? entry : { ...entry, comment },
    );
    const newConfig = replace(layout, manifest.config, { ...config, history });
    return replace(layout, descriptor, { ...manifest, config: newConfig });
  });
  writeFileSync(path, JSON.stringify({ ...index, manifests }));
}

function replace<T extends Descriptor>(layout: string, descriptor: T, content: object): T {
  const text = JSON.stringify(content);
  const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`;
  const changed = { ...descriptor, digest, size: Buffer.byteLength(text) };
  rmSync(locate(layout, descriptor));
  writeFileSync(locate(layout, changed), text);
  return changed;
}

function locate(layout: string, { digest }: Descriptor): string {
  return join(layout, 'blobs', digest.replace(':', '/'));
}

function read(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8')) as unknown;
}
