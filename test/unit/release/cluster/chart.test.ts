import { beforeAll, describe, test, expect } from '@jest/globals';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../../support/network/own-folder.ts';
import { writeChart } from '../../../../tools/release/cluster/chart.ts';
import { print, parse, version, type KubernetesObject } from '../../../support/manifest/printing.ts';
import { definitions } from '../../../../lib/api/crds.ts';

const folder = makeFolder('chart');
beforeAll(() => writeChart('.', folder, print));

const read = (file: string) => parse(readFileSync(join(folder, file), 'utf8'));
const isDefinition = ({ kind }: KubernetesObject) => kind === 'CustomResourceDefinition';

describe('the whole chart', () => {
  test('has what a checkout has of it, and what vipnat manifest prints', () => {
    const own = readdirSync('manifests/chart');
    expect(readdirSync(folder).sort()).toEqual([...own, 'base', 'charts'].sort());
    expect(own).not.toContain('base');
  });

  test.each([
    ['daemonset.yaml', ['daemonset', '--vip=10.0.0.50']],
    ['daemonset-least-privilege.yaml', ['daemonset', '--vip=10.0.0.50', '--least-privilege']],
    ['services.yaml', ['services', '--inject-gates']],
    ['services-webhook.yaml', ['services', '--inject-gates=webhook']],
  ])('has every object but definitions in base/%s', async (file, words) => {
    const printed = parse(await print(words)).filter((object) => !isDefinition(object));
    expect(read(`base/${file}`)).toEqual(printed);
  });

  test('has every definition once, in a chart that is left out without Services', () => {
    const own = join(folder, 'charts/definitions');
    expect(readdirSync(join(own, 'crds'))).toEqual(['services.yaml']);
    expect(read('charts/definitions/crds/services.yaml')).toEqual(JSON.parse(JSON.stringify(definitions)));
    const [chart, definition] = [read('Chart.yaml')[0], read('charts/definitions/Chart.yaml')[0]] as never[];
    const dependencies = [{ name: 'definitions', version, condition: 'services.enabled' }];
    expect([chart, definition]).toMatchObject([
      { version, dependencies },
      { name: 'definitions', version },
    ]);
  });
});
