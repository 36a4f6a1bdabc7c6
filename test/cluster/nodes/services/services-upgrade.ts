import { servicesNamespace, printServices, waitForServices } from '../../../../tools/lab/services/install.ts';
import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import type { Administrator } from '../install/administrator.ts';
import { onlyLong } from '../../../support/jest/extent.ts';
import { test, describe, beforeAll, expect } from '@jest/globals';
import { type FormerVersion, importFormerVersion, tagImage } from './former-version.ts';
import { tell } from '../../../support/lab/test-lab.ts';
import {
  waitForAddress,
  findHolder,
  createWeb,
  askWeb,
  removeWeb,
} from '../../../../tools/lab/services/web.ts';
import { connectWhile, connectToEachWhile } from './services-load.ts';
import { listCrashes } from '../pods/agents.ts';
import { AddressMoves } from './address-moves.ts';
import { workers } from './named-pods.ts';
import { parseAllDocuments, stringify } from 'yaml';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';

/** Building and importing an image takes minutes. */
const importLimitMs = 30 * 60_000;

const inNamespace = ['--namespace', servicesNamespace];

/** More Services of the pods of `web`. */
const more = ['web-2', 'web-3'];

/** Tests what clients see of other versions of all programs that serve Services, and that neighbouring versions work together. */
export function testUpgrade(lab: () => NodeLab, administrator: () => Administrator): void {
  for (const name of onlyLong(
    'controllers, balancers and keepalived come from other images: no connection fails, and a node gives an address up once at most',
  ))
    test(name, () => replaceAllImages(lab()));

  for (const title of onlyLong('the version that landed last')) {
    describe(title, () => {
      let former: FormerVersion;
      beforeAll(async () => {
        former = await importFormerVersion(lab(), administrator());
        tell(`the former version is ${former.commit}`);
      }, importLimitMs);

      test.each([
        ['takes the place of this one', { isFormer: true, withBalancers: true }],
        ['gets a newer controller', { isFormer: false, withBalancers: false }],
        ['is replaced', { isFormer: false, withBalancers: true }],
        ['is the controller of newer balancers', { isFormer: true, withBalancers: false }],
        ['is replaced again', { isFormer: false, withBalancers: true }],
      ])(
        '%s: no connection fails, and a new Service with a gate works',
        async (what, { isFormer, withBalancers }) => {
          const manifest = isFormer ? former.manifest : await printServices(lab());
          const load = { address: await waitForAddress(lab(), 'web'), what: `the former version ${what}` };
          const report = await connectWhile(lab(), load, async () => {
            await install(lab(), manifest, withBalancers);
            await expectNewService(lab());
          });
          expect(report.failed).toEqual([]);
          expect(await listCrashes(lab(), [], { namespace: servicesNamespace, pods: '' })).toEqual([]);
        },
      );
    });
  }
}

async function replaceAllImages(lab: NodeLab): Promise<void> {
  for (const name of more) await lab.apply(renderService(name));
  const loads = await Promise.all(
    ['web', ...more].map(async (name) => ({
      address: await waitForAddress(lab, name),
      what: `all images replaced, ${name}`,
    })),
  );
  const addresses = loads.map(({ address }) => address);
  const before = await Promise.all(addresses.map((address) => findHolder(lab, address)));
  const moves = await AddressMoves.listen(lab, workers);
  const reports = await connectToEachWhile(lab, loads, () => renameImages(lab));
  const counts = await moves.end(addresses);
  const after = await Promise.all(addresses.map((address) => findHolder(lab, address)));
  tell(`all images replaced: ${JSON.stringify({ before, counts, after })}`);
  expect(reports.map(({ failed }) => failed)).toEqual(reports.map(() => []));
  // Who held it at the start gave it up, and nobody twice.
  expect(Object.keys(counts).length).toBeGreaterThan(0);
  expect(Math.max(...Object.values(counts))).toBe(1);
  await lab.ask(['delete', 'services', ...more, '--namespace', 'default']);
}

/** Gives all images another name, and has all programs come from them. */
async function renameImages(lab: NodeLab): Promise<void> {
  const manifest = await printServices(lab);
  const images = [...new Set([...manifest.matchAll(/ image: (\S+)/g)].map(([, image = '']) => image))];
  const other = (image: string) => image.replace(/:[^:]*$/, ':other');
  for (const image of images) await tagImage(lab, image, other(image));
  const input = images.reduce(
    (text, image) => text.replaceAll(` image: ${image}\n`, ` image: ${other(image)}\n`),
    manifest,
  );
  await lab.ask(['apply', '--filename', '-'], { input });
  await waitForServices(lab);
}

function renderService(name: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'default' },
    spec: {
      ...{ type: 'LoadBalancer', loadBalancerClass: 'vipnat.io/lb', selector: { app: 'web' } },
      ports: [{ port: 80, targetPort: 8080 }],
    },
  };
}

/** Applies a manifest, and waits until what it replaces is ready. Balancers that are not to be replaced stay as they are. */
async function install(lab: NodeLab, manifest: string, withBalancers: boolean): Promise<void> {
  const objects = parseAllDocuments(manifest)
    .map((document) => document.toJS() as { readonly kind: string; readonly spec?: object } | null)
    .filter((object) => object !== null)
    .map((object) =>
      object.kind === 'DaemonSet' && !withBalancers
        ? { ...object, spec: { ...object.spec, updateStrategy: { type: 'OnDelete' } } }
        : object,
    );
  const input = objects.map((object) => stringify(object)).join('---\n');
  await lab.ask(['apply', '--filename', '-'], { input });
  if (withBalancers) await waitForServices(lab);
  else await waitForControllers(lab);
}

async function waitForControllers(lab: NodeLab): Promise<void> {
  await waitUntil('the controllers are ready', async () => {
    const words = ['rollout', 'status', 'deployment/vipnat-controller', ...inNamespace, '--timeout=30s'];
    const { exitCode, stdout, stderr } = await lab.kubectl(words);
    return exitCode === 0 ? null : `${stdout}${stderr}`;
  });
}

/** Controller and balancers have to agree on its address, its seat and its gates. */
async function expectNewService(lab: NodeLab): Promise<void> {
  const name = 'mixed';
  await createWeb(lab, {
    ...{ name, replicas: 2 },
    pod: { readinessGates: [{ conditionType: 'vipnat.io/load-balancer-ready' }] },
  });
  const { failed } = await askWeb(lab, 'client', await waitForAddress(lab, name), 20);
  expect(failed).toBe(0);
  await removeWeb(lab, name);
}
